package usageevent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/weir-project/weir/pkg/domain/plainjson"
)

// A provider's object with a member twice says two things: encoding/json merges the two or takes the last, another reader
// the first (RFC 8259, section 4). Names that differ by case alone are one to encoding/json, too. Whoever bills by such an
// object and whoever checks the bill could read two amounts, so it is refused.

// maxOnce bounds the members of an object whose names are compared pair by pair.
const maxOnce = 64

// isText names the members of a response that hold what was asked and answered: nobody reads a quantity there, and objects
// by token, or arguments of tools, may well have names that differ by case alone.
func isText(name string) bool {
	switch name {
	case "choices", "candidates", "content", "contents", "output", "output_text", "input", "prompt", "instructions", "text", "tools", "tool_calls":
		return true
	default:
		return false
	}
}

// CheckUsage reports why raw cannot be a provider's usage object or response: it is not one JSON object, or has a member
// twice, at whatever depth and in whatever case. What holds texts is not looked into. The error is an *Error with its Field.
func CheckUsage(raw json.RawMessage) error {
	if err := checkUsage(raw); err != nil {
		err.Field = "usage"
		return err
	}
	return nil
}

func checkUsage(raw []byte) *Error {
	at := plainjson.Space(raw, 0)
	if end, plain := PlainUsage(raw[at:]); plain && plainjson.Space(raw, at+end) == len(raw) {
		return nil
	}
	return readOnce(raw)
}

// PlainUsage is the end of the object that b begins with, where that is plain JSON and CheckUsage has nothing against it:
// in one pass, for whoever does not know the end. Elsewhere it is false, which says nothing.
func PlainUsage(b []byte) (end int, plain bool) {
	if len(b) == 0 || b[0] != '{' {
		return 0, false
	}
	end = onceObject(b, 0, 1)
	return end, end > 0
}

// onceValue is plainjson.Value of a value none of whose objects has a member twice; -1 elsewhere.
func onceValue(b []byte, at, depth int) int {
	if at >= len(b) || depth > plainjson.MaxDepth {
		return -1
	}
	switch b[at] {
	case '{':
		return onceObject(b, at, depth+1)
	case '[':
		return plainjson.Array(b, at, depth+1, onceValue)
	default:
		return plainjson.Value(b, at, depth)
	}
}

func onceObject(b []byte, at, depth int) int {
	var room [12][]byte // enough for a provider's usage, without the heap
	names := room[:0]
	return plainjson.Object(b, at, depth, func(name []byte, at, depth int) int {
		if len(names) == maxOnce {
			return -1
		}
		for _, other := range names {
			if len(other) == len(name) && bytes.EqualFold(other, name) {
				return -1
			}
		}
		names = append(names, name)
		if isText(string(name)) {
			return plainjson.Value(b, at, depth)
		}
		return onceValue(b, at, depth)
	})
}

// nest is an object or array that is being read: names is nil in an array, and value says that a member's value comes next.
type nest struct {
	names map[string]bool
	value bool
}

// readOnce is checkUsage for what is not plain, or not right.
func readOnce(raw []byte) *Error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return malformed("usage is not a JSON object")
	}
	within := []nest{{names: map[string]bool{}}}
	for len(within) > 0 {
		t, err := dec.Token()
		if err != nil {
			return malformed("usage is not valid JSON")
		}
		in := &within[len(within)-1]
		name, isName := t.(string)
		if isName = isName && in.names != nil && !in.value; isName {
			if in.names[folded(name)] {
				return malformed(fmt.Sprintf("usage has %q twice", clip(name)))
			}
			in.names[folded(name)], in.value = true, true
			if isText(name) {
				in.value = false
				if err := dec.Decode(new(json.RawMessage)); err != nil {
					return malformed("usage is not valid JSON")
				}
			}
			continue
		}
		in.value = false
		switch t {
		case json.Delim('{'):
			within = append(within, nest{names: map[string]bool{}})
		case json.Delim('['):
			within = append(within, nest{})
		case json.Delim('}'), json.Delim(']'):
			within = within[:len(within)-1]
		}
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return malformed("usage has something after it")
	}
	return nil
}

// folded is the same for names that encoding/json takes for the same.
func folded(name string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
			least = min(least, next)
		}
		return least
	}, name)
}
