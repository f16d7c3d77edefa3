package admission

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/weir-project/weir/pkg/usageevent"
)

// Requests as nearly all clients send them are read in one pass: an object whose members are known, each once, and
// strings without escapes, whole numbers, objects of whole numbers, or one provider's object. Everything else, and
// everything that is wrong, is left to encoding/json, which alone says what is an error: a quick reading is one that it
// agrees with (a fuzz test holds them against each other).

// maxPlainMembers bounds the members of an object that is read quickly.
const maxPlainMembers = 24

// quick is a request that may be read quickly.
type quick interface {
	// quickly fills the member of that name from s; false: not one that is read quickly.
	quickly(name string, s *scanner) bool
}

// decodeQuickly reads a body into a zero request; false means that into is to be read by encoding/json, from zero. text is
// the same as body, of which nothing is kept.
func decodeQuickly(body []byte, text string, into quick) bool {
	s := scanner{text: text, body: body}
	return s.object(func(name string) bool { return into.quickly(name, &s) }) && s.end()
}

func (r *reserveRequest) quickly(name string, s *scanner) bool {
	switch name {
	case "reservation_id":
		return s.string(&r.ReservationID)
	case "provider":
		return s.string(&r.Provider)
	case "model":
		return s.string(&r.Model)
	case "estimate":
		return s.quantities(&r.Estimate)
	case "effect":
		return s.string(&r.Effect)
	case "execution_token":
		return s.string((*string)(&r.ExecutionToken)) && r.ExecutionToken != ""
	case "agent_id":
		return s.string(&r.AgentID)
	case "parent_agent_id":
		return s.string(&r.ParentAgentID)
	case "cost_center":
		return s.string(&r.CostCenter)
	case "lease_seconds":
		return s.int(&r.LeaseSeconds)
	default:
		return false
	}
}

func (r *settleRequest) quickly(name string, s *scanner) bool {
	switch name {
	case "usage":
		return s.usage(r)
	case "api":
		return s.string(&r.API)
	case "meters":
		return s.quantities(&r.Meters)
	case "status":
		return s.string(&r.Status)
	case "error_code":
		return s.string(&r.ErrorCode)
	case "model":
		return s.string(&r.Model)
	case "service_tier":
		return s.string(&r.ServiceTier)
	case "response_id":
		return s.string(&r.ResponseID)
	case "receipt":
		return s.string((*string)(&r.Receipt)) && r.Receipt != ""
	default:
		return false
	}
}

// scanner reads plain JSON from text. Its methods report whether it was plain; at is of no use after a no.
type scanner struct {
	text string
	body []byte // the same, for readers of bytes
	at   int
}

// skip passes white space and then b.
func (s *scanner) skip(b byte) bool {
	s.space()
	if s.at < len(s.text) && s.text[s.at] == b {
		s.at++
		return true
	}
	return false
}

func (s *scanner) space() {
	for s.at < len(s.text) && (s.text[s.at] == ' ' || s.text[s.at] == '\n' || s.text[s.at] == '\t' || s.text[s.at] == '\r') {
		s.at++
	}
}

func (s *scanner) end() bool {
	s.space()
	return s.at == len(s.text)
}

// object reads an object whose members have different names; read takes each value.
func (s *scanner) object(read func(name string) bool) bool {
	if !s.skip('{') {
		return false
	}
	var seen [maxPlainMembers]string
	for n := 0; n < len(seen); n++ {
		if !s.string(&seen[n]) || !s.skip(':') || !read(seen[n]) {
			return false
		}
		for _, before := range seen[:n] {
			if before == seen[n] {
				return false
			}
		}
		if s.skip('}') {
			return true
		}
		if !s.skip(',') {
			return false
		}
	}
	return false
}

// string reads a string of printable ASCII without escapes. It shares text's memory.
func (s *scanner) string(into *string) bool {
	if !s.skip('"') {
		return false
	}
	end := strings.IndexByte(s.text[s.at:], '"') // a search of 16 bytes at a time
	if end < 0 {
		return false
	}
	read := s.text[s.at : s.at+end]
	for i := range len(read) {
		if c := read[i]; c-' ' > '~'-' ' || c == '\\' {
			return false
		}
	}
	*into = read
	s.at += end + 1
	return true
}

// digits reads a whole number that is not negative.
func (s *scanner) digits() (text string, n int64, ok bool) {
	s.space()
	from := s.at
	for s.at < len(s.text) && s.text[s.at] >= '0' && s.text[s.at] <= '9' {
		s.at++
	}
	text = s.text[from:s.at]
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || len(text) > 1 && text[0] == '0' || s.at < len(s.text) && strings.IndexByte(".eE", s.text[s.at]) >= 0 {
		return "", 0, false
	}
	return text, n, true
}

func (s *scanner) int(into *int64) (ok bool) {
	_, *into, ok = s.digits()
	return ok
}

// quantities reads an object of whole numbers.
func (s *scanner) quantities(into *quantities) bool {
	*into = make(quantities, 4)
	return s.object(func(name string) bool {
		text, _, ok := s.digits()
		(*into)[name] = json.Number(text)
		return ok
	})
}

// usage reads a provider's object, whose members are there once. One that the event can carry as it is, which is nearly
// every one, is put in order with that same look at it; the request has no other then.
func (s *scanner) usage(r *settleRequest) bool {
	s.space()
	if ordered, end, ok := usageevent.OrderFirst(s.body[s.at:], isUsage); ok {
		r.ordered, r.Usage = ordered, ordered.Bytes()
		s.at += end
		return true
	}
	return s.raw(&r.Usage)
}

// raw reads an object of whatever content, as it is, whose members are there once.
func (s *scanner) raw(into *json.RawMessage) bool {
	s.space()
	rest := []byte(s.text[s.at:]) // what follows is little
	if end, plain := usageevent.PlainUsage(rest); plain {
		*into = rest[:end:end]
		s.at += end
		return true
	}
	depth, quoted := 0, false
	for i := s.at; i < len(s.text); i++ {
		switch c := s.text[i]; {
		case quoted:
			if c == '\\' {
				i++
			}
			quoted = c != '"'
		case c == '"':
			quoted = true
		case c == '{':
			depth++
		case depth == 0: // it does not begin as an object
			return false
		case c == '}':
			if depth--; depth == 0 {
				*into = json.RawMessage(s.text[s.at : i+1])
				s.at = i + 1
				return usageevent.CheckUsage(*into) == nil // which is faster than json.Valid, and knows of members that are there twice
			}
		}
	}
	return false
}
