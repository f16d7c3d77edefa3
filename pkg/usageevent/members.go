package usageevent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/weir-project/weir/pkg/domain/plainjson"
)

// object is a JSON object's members by their exact names. encoding/json would match names without regard to case and
// let the last of two equal names win; either would let two readers see two different events in the same bytes.
type object map[string]json.RawMessage

// members reads raw, which must be exactly one JSON object without repeated names.
func members(raw []byte, what string) (object, *Error) {
	if out, ok := plainMembers(raw); ok {
		return out, nil
	}
	return readMembers(raw, what)
}

// readMembers is members for what is not plain, or not right.
func readMembers(raw []byte, what string) (object, *Error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, malformed(what + " is not a JSON object")
	}
	out := object{}
	for dec.More() {
		t, err := dec.Token()
		name, ok := t.(string)
		if err != nil || !ok {
			return nil, malformed(what + " is not valid JSON")
		}
		if _, twice := out[name]; twice {
			return nil, malformed(fmt.Sprintf("%s has %q twice", what, clip(name)))
		}
		var v json.RawMessage
		if err := dec.Decode(&v); err != nil {
			return nil, malformed(what + " is not valid JSON")
		}
		out[name] = v
	}
	if _, err := dec.Token(); err != nil {
		return nil, malformed(what + " is not valid JSON")
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, malformed(what + " has something after it")
	}
	return out, nil
}

// present reports whether the member is there and not null: null is absent (CloudEvents JSON format).
func (o object) present(name string) bool {
	raw, ok := o[name]
	return ok && !bytes.Equal(raw, []byte("null"))
}

// text reads a string member; absent is "".
func (o object) text(name string, limit int) (string, *Error) {
	if !o.present(name) {
		return "", nil
	}
	var s string
	if raw := o[name]; plainjson.String(raw, 0) == len(raw) {
		s = string(raw[1 : len(raw)-1])
		return s, checkText(name, s, limit)
	}
	if o[name][0] != '"' || json.Unmarshal(o[name], &s) != nil {
		return "", malformed(name + " is not a string")
	}
	return s, checkText(name, s, limit)
}

func checkText(name, s string, limit int) *Error {
	if len(s) > limit {
		return malformed(fmt.Sprintf("%s has %d bytes, more than %d", name, len(s), limit))
	}
	if !utf8.ValidString(s) || strings.ContainsFunc(s, control) {
		return malformed(name + " has control characters")
	}
	return nil
}

// textOfNull lists what programs print for "nothing": as an id each would make strangers equal.
func textOfNull(s string) bool {
	if s = strings.TrimSpace(s); len(s) > len("[object object]") {
		return false
	}
	switch strings.ToLower(s) {
	case "", "none", "null", "nil", "<nil>", "undefined", "nan", "(null)", "[object object]":
		return true
	}
	return false
}

// IsNothing reports whether a text says nothing: it is empty, blank, or what programs print for nothing.
func IsNothing(s string) bool { return textOfNull(s) }

// requiredID reads an id that must be there.
func requiredID(name, s string, limit int) *Error {
	if textOfNull(s) {
		return &Error{Reason: NoID, Detail: fmt.Sprintf("%s is %q", name, clip(s))}
	}
	return checkText(name, s, limit)
}

func clip(s string) string {
	if len(s) > 40 {
		return strings.ToValidUTF8(s[:40], "") + "…"
	}
	return s
}
