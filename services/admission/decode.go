package admission

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

const (
	maxBody = 1 << 20
	maxID   = 128
	maxName = 256 // provider and model names
)

// decode reads a body into into: one JSON object, no member that is unknown. An empty body is allowed where empty says
// so. Its error names the member.
func decode(w http.ResponseWriter, r *http.Request, into any, empty bool) *Problem {
	body, p := readBody(w, r, maxBody)
	if p != nil {
		return p
	}
	if len(body) == 0 && empty {
		return nil
	}
	return decodeStrict(body, into)
}

// readBody reads a whole body of at most so many bytes.
func readBody(w http.ResponseWriter, r *http.Request, most int64) ([]byte, *Problem) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	if err == nil {
		return body, nil
	}
	if errors.As(err, new(*http.MaxBytesError)) {
		return nil, invalid("", fmt.Sprintf("The body is larger than %d bytes.", most))
	}
	return nil, invalid("", "The body could not be read.")
}

func decodeStrict(body []byte, into any) *Problem {
	dec := json.NewDecoder(strings.NewReader(string(body)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return decodeProblem(err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return invalid("", "The body is more than one JSON object.")
	}
	return nil
}

func decodeProblem(err error) *Problem {
	var wrongType *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrongType):
		return invalid(wrongType.Field, fmt.Sprintf("%s is a JSON %s, need %s.", wrongType.Field, wrongType.Value, wrongType.Type))
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return invalid("", "The body is not a whole JSON object.")
	}
	if field, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		field = strings.Trim(field, `"`)
		return invalid(field, fmt.Sprintf("Unknown field %q.", field))
	}
	return invalid("", strings.TrimPrefix(err.Error(), "json: "))
}

// checkID accepts 1 to 128 of A-Za-z0-9._:- (design.md, section 12).
func checkID(field, s string) *Problem {
	if s == "" {
		return invalid(field, field+" is missing.")
	}
	if len(s) > maxID || strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._:-", r)
	}) {
		return invalid(field, field+" is not 1 to 128 of A-Z a-z 0-9 . _ : -")
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
