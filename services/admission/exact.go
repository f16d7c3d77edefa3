package admission

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// encoding/json takes members in any case and lets the last of two win, so that two readers could see two requests in the
// same bytes. Both are refused: see RFC 8259, section 4, and RFC 7493, section 2.3.

// checkExact refuses members of a body that are there twice, or in another case than into has them. The body has been
// decoded into into: it is valid JSON, and its members are known but for their case.
func checkExact(body string, into any) *Problem {
	known := membersOf(reflect.TypeOf(into).Elem())
	var wrong *Problem
	_ = eachMember(body, func(name string, twice bool, _ json.RawMessage) error {
		switch {
		case wrong != nil:
		case !known[name]:
			wrong = invalid(name, fmt.Sprintf("Unknown field %q; names are in lower case.", name))
		case twice:
			wrong = repeated(name)
		}
		return nil
	})
	return wrong
}

func repeated(name string) *Problem { return invalid(name, name+" is there twice.") }

// membersOf are the names of a struct's members.
func membersOf(t reflect.Type) map[string]bool {
	known := make(map[string]bool, t.NumField())
	for i := range t.NumField() {
		if f := t.Field(i); f.IsExported() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			known[name] = true
		}
	}
	return known
}

// eachMember reads the members of an object in order; twice: one of that name came before. null has none.
func eachMember(text string, do func(name string, twice bool, value json.RawMessage) error) error {
	dec := json.NewDecoder(strings.NewReader(text))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return err
	}
	seen := map[string]bool{}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return err
		}
		name, _ := token.(string)
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return err
		}
		if err := do(name, seen[name], value); err != nil {
			return err
		}
		seen[name] = true
	}
	return nil
}
