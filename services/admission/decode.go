package admission

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"

	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/usageevent"
)

const (
	maxBody = 1 << 20
	maxName = 256 // provider and model names
)

// decode reads a body into into: one JSON object, no member that is unknown. An empty body is allowed where empty says
// so. Its error names the member.
func (s *Service) decode(w http.ResponseWriter, r *http.Request, into any, empty bool) *Problem {
	room := s.room()
	defer s.giveBack(room) // what is read of the body is a copy
	body, p := readBody(w, r, maxBody, *room)
	if p != nil {
		return p
	}
	*room = body
	if len(body) == 0 && empty {
		return nil
	}
	return decodeStrict(body, into)
}

// maxRoom bounds what is kept of memory for the next body: nearly all are smaller.
const maxRoom = 16 << 10

// room is memory for a body that comes or goes.
func (s *Service) room() *[]byte {
	if b, ok := s.bodies.Get().(*[]byte); ok {
		return b
	}
	return new([]byte)
}

// giveBack is for what room gave, when nothing refers to it any more.
func (s *Service) giveBack(b *[]byte) {
	if cap(*b) <= maxRoom {
		s.bodies.Put(b)
	}
}

// tooLong refuses a body that says itself that it is longer, before anything of it is read.
func tooLong(r *http.Request, most int64) *Problem {
	if r.ContentLength > most {
		return tooLarge(most)
	}
	return nil
}

// encoded refuses a body that is not sent as it is: nobody here would decode it.
func encoded(r *http.Request) *Problem {
	as := strings.Join(r.Header["Content-Encoding"], ", ") // the name is as net/http stores it
	if as == "" || strings.EqualFold(as, "identity") {
		return nil
	}
	p := problem(codeEncoded, fmt.Sprintf("Content-Encoding is %.40q: send the body without one.", as))
	p.Field = "Content-Encoding"
	return p
}

func tooLarge(most int64) *Problem {
	return problem(codeTooLarge, fmt.Sprintf("The body is larger than %d bytes.", most))
}

// readBody reads a whole body of at most so many bytes, into room where it fits. The request has none then.
func readBody(w http.ResponseWriter, r *http.Request, most int64, room []byte) ([]byte, *Problem) {
	if p := first(tooLong(r, most), encoded(r)); p != nil {
		return nil, p
	}
	var body []byte
	var err error
	if n := r.ContentLength; n > 0 { // the usual case, without a buffer that grows
		if body = room[:0]; int64(cap(body)) < n {
			body = make([]byte, 0, n)
		}
		body = body[:n]
		_, err = io.ReadFull(r.Body, body)
	} else {
		body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	}
	if err == nil {
		r.Body = http.NoBody
		return body, nil
	}
	if errors.As(err, new(*http.MaxBytesError)) {
		return nil, tooLarge(most)
	}
	return nil, invalid("", "The body could not be read.")
}

func decodeStrict(body []byte, into any) *Problem {
	text := string(body)
	if p := checkText(text); p != nil {
		return p
	}
	if q, ok := into.(quick); ok {
		if decodeQuickly(body, text, q) {
			return nil
		}
		reflect.ValueOf(into).Elem().SetZero() // of what was read so far
	}
	dec := json.NewDecoder(strings.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		if bad, ok := errors.AsType[*quantityError](err); ok {
			return bad.in(into)
		}
		if errors.Is(err, errEmptyToken) {
			return emptyToken(into)
		}
		return decodeProblem(err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return invalid("", "The body is more than one JSON object.")
	}
	if p := checkExact(text, into); p != nil {
		return p
	}
	if s, ok := into.(*settleRequest); ok {
		return s.checkUsage()
	}
	return nil
}

// checkUsage refuses a provider's object that says something twice. Every decoder of a settle asks for it.
func (req *settleRequest) checkUsage() *Problem {
	if !given(req.Usage) {
		return nil
	}
	return unfit(usageevent.CheckUsage(req.Usage))
}

// decodeProblem says what is wrong in the API's words: which member, and what is wanted of it.
func decodeProblem(err error) *Problem {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		field, what := wrong.Field, "The body"
		if field != "" {
			what = field
		}
		kind, number, _ := strings.Cut(wrong.Value, " ") // "number 1.5" where it is a number
		if number != "" && (wrong.Type.Kind() == reflect.Int || wrong.Type.Kind() == reflect.Int64) {
			return invalid(field, fmt.Sprintf("%s is %.40s, not %s of 64 bits, written in digits.", what, number, wanted(wrong.Type)))
		}
		return invalid(field, fmt.Sprintf("%s is %s, not %s.", what, jsonKind(kind), wanted(wrong.Type)))
	}
	if errors.Is(err, money.ErrSyntax) || errors.Is(err, money.ErrRange) { // the only amount that a request has
		return invalid("max_cost_usd", notLimit)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return invalid("", "The body is not a whole JSON object.")
	}
	if field, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		field = strings.Trim(field, `"`)
		return invalid(field, fmt.Sprintf("Unknown field %q.", field))
	}
	return invalid("", "The body is not valid JSON.")
}

// limitRule is what every limit of dollars must be, here and in the tenants file.
const limitRule = "US dollars, above 0, at most 9007199.254740991, with at most nine decimals, written as JSON writes numbers"

// notLimit is what is said of one that is not.
const notLimit = "max_cost_usd is not an amount in " + limitRule + "."

// jsonKind is a kind of JSON value with its article.
func jsonKind(kind string) string {
	switch kind {
	case "bool":
		return "true or false"
	case "object", "array":
		return "an " + kind
	default:
		return "a " + kind
	}
}

// wanted is what a member must be.
func wanted(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[money.USD]():
		return "a string with an amount in US dollars"
	case t.Kind() == reflect.String:
		return "a string"
	case t.Kind() == reflect.Int, t.Kind() == reflect.Int64:
		return "a whole number"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.Slice:
		return "an array"
	default:
		return "an object"
	}
}

// token is an execution token or a receipt. None is a member that is absent or null; an empty text is what a program sends that
// failed to get one, and to take it for none would start a root with a budget of its own, or a call outside of any execution, or
// would end whatever hold has that id by now.
type token string

var errEmptyToken = errors.New("a token is empty")

// UnmarshalJSON refuses the empty text.
func (t *token) UnmarshalJSON(b []byte) error {
	var s *string
	if err := json.Unmarshal(b, &s); err != nil || s == nil {
		return err
	}
	if *s == "" {
		return errEmptyToken
	}
	*t = token(*s)
	return nil
}

func emptyToken(request any) *Problem {
	field := "receipt" // of settle, extend and release
	switch request.(type) {
	case *executionRequest:
		field = "parent_token"
	case *reserveRequest:
		field = "execution_token"
	}
	return invalid(field, field+" is empty: leave it out where there is none.")
}

// quantities are numbers by the name of their meter; numbers in quotes are taken too.
type quantities map[string]json.Number

// quantityError names the quantity that is wrong, and says how.
type quantityError struct{ name, what string }

func (e *quantityError) Error() string { return e.name + " " + e.what }

// in is the answer, which names the quantity with the member of the request that has it.
func (e *quantityError) in(request any) *Problem {
	member := "estimate."
	if _, ok := request.(*settleRequest); ok {
		member = "meters."
	}
	return invalid(member+e.name, member+e.Error()+".")
}

// UnmarshalJSON reads them one by one, so that an error can name the one that is wrong.
func (q *quantities) UnmarshalJSON(b []byte) error {
	if b[0] != '{' { // null, or an error in encoding/json's words
		return json.Unmarshal(b, (*map[string]json.Number)(q))
	}
	*q = make(quantities)
	return eachMember(string(b), func(name string, twice bool, raw json.RawMessage) error {
		var n json.Number
		if err := json.Unmarshal(raw, &n); err != nil || n == "" {
			return &quantityError{name, "is not a number"}
		}
		if twice {
			return &quantityError{name, "is there twice"}
		}
		(*q)[name] = n
		return nil
	})
}

// unfit is the answer to what pkg/usageevent would not read back; nil for nil.
func unfit(err error) *Problem {
	if err == nil {
		return nil
	}
	e, ok := errors.AsType[*usageevent.Error](err)
	if !ok {
		return invalid("", err.Error())
	}
	return invalid(e.Field, e.Detail+".")
}

// checkID accepts the id of something new: what checkShape does, but not what programs print for "nothing", which no event
// may carry as an id.
func checkID(field, s string) *Problem {
	if p := checkShape(field, s); p != nil {
		return p
	}
	if usageevent.CheckID(field, s) != nil {
		return invalid(field, fmt.Sprintf("%s is %q, which is what programs print for a missing value.", field, s))
	}
	return nil
}

// checkShape accepts what tenant.ValidID does.
func checkShape(field, s string) *Problem {
	if s == "" {
		return invalid(field, field+" is missing.")
	}
	if !tenant.ValidID(s) {
		return invalid(field, field+" is not 1 to 128 of A-Z a-z 0-9 . _ : -, or is dots alone.")
	}
	return nil
}

func checkOptionalID(field, s string) *Problem {
	if s == "" {
		return nil
	}
	return checkID(field, s)
}

// checkName accepts what providers call their models: printable, bounded.
func checkName(field, s string) *Problem {
	if s == "" {
		return invalid(field, field+" is missing.")
	}
	if len(s) > maxName || strings.ContainsFunc(s, func(r rune) bool { return r < 0x21 || r > 0x7e }) {
		return invalid(field, fmt.Sprintf("%s is not 1 to %d printable characters.", field, maxName))
	}
	return nil
}

// first is the first problem there is, nil for none.
func first(problems ...*Problem) *Problem {
	for _, p := range problems {
		if p != nil {
			return p
		}
	}
	return nil
}
