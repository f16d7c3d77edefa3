package usageevent

import (
	"bytes"
	"slices"

	"github.com/weir-project/weir/pkg/domain/plainjson"
)

// Plain JSON (package plainjson) is what nearly every event consists of, and is read here in one pass. Whatever is not plain,
// or not JSON, is left to encoding/json: a plain reading is never an error, and is always the one that encoding/json has (a fuzz
// test holds them against each other).
//
// There are three walks of like shape, because they differ in what they make on the way, which is where the time goes: that of
// plainjson finds where values end, which once.go compares names with and usage/plain.go reads counts with; appendPlain writes
// members in order; and admission's quick.go reads requests from a string, whose memory they share. usage/unknown.go is none of
// them: it goes through JSON that is known to be valid, plain or not.

// plainMembers are the members of an object; false where it is not plain, or has a name twice.
func plainMembers(raw []byte) (object, bool) {
	at := plainjson.Space(raw, 0)
	if at == len(raw) || raw[at] != '{' {
		return nil, false
	}
	out := make(object, 16)
	end := plainjson.Object(raw, at, 1, func(name []byte, at, depth int) int {
		end := plainjson.Value(raw, at, depth)
		if _, twice := out[string(name)]; twice || end < 0 {
			return -1
		}
		out[string(name)] = raw[at:end:end]
		return end
	})
	return out, end > 0 && plainjson.Space(raw, end) == len(raw)
}

// appendPlain appends to out what Canonical makes of raw; false where raw is not plain, has a name twice, or one that
// allowed, unless it is nil, does not take or that is not all lower case.
func appendPlain(out, raw []byte, allowed func(name []byte) bool) ([]byte, bool) {
	out, end := appendPlainValue(out, raw, plainjson.Space(raw, 0), 0, allowed)
	return out, end >= 0 && plainjson.Space(raw, end) == len(raw)
}

// appendPlainValue appends the value that begins at at, without white space and with the members of its objects sorted,
// and returns its end; -1 where it is not plain.
func appendPlainValue(out, b []byte, at, depth int, allowed func(name []byte) bool) ([]byte, int) {
	if at < len(b) && depth <= plainjson.MaxDepth {
		switch b[at] {
		case '{':
			return appendPlainObject(out, b, at, depth+1, allowed)
		case '[':
			return appendPlainArray(out, b, at, depth+1, allowed)
		}
	}
	end := plainjson.Value(b, at, depth)
	if end < 0 {
		return out, -1
	}
	return append(out, b[at:end]...), end
}

func appendPlainArray(out, b []byte, at, depth int, allowed func(name []byte) bool) ([]byte, int) {
	out = append(out, '[')
	if at = plainjson.Space(b, at+1); at < len(b) && b[at] == ']' {
		return append(out, ']'), at + 1
	}
	for {
		if out, at = appendPlainValue(out, b, at, depth, allowed); at < 0 {
			return out, -1
		}
		if at = plainjson.Space(b, at); at == len(b) || b[at] != ',' && b[at] != ']' {
			return out, -1
		}
		out = append(out, b[at])
		if b[at] == ']' {
			return out, at + 1
		}
		at = plainjson.Space(b, at+1)
	}
}

// written is a member that was appended: its name, and where it stands.
type written struct {
	name     []byte
	from, to int
}

func appendPlainObject(out, b []byte, at, depth int, allowed func(name []byte) bool) ([]byte, int) {
	var room [12]written // enough for a provider's usage, without the heap
	members := room[:0]
	out = append(out, '{')
	if at = plainjson.Space(b, at+1); at < len(b) && b[at] == '}' {
		return append(out, '}'), at + 1
	}
	for {
		end, from := plainjson.String(b, at), len(out)
		if end < 0 {
			return out, -1
		}
		name := b[at+1 : end-1]
		if allowed != nil && (!allowed(name) || hasUpper(name)) {
			return out, -1
		}
		out = append(append(out, b[at:end]...), ':')
		if at = plainjson.Space(b, end); at == len(b) || b[at] != ':' {
			return out, -1
		}
		if out, at = appendPlainValue(out, b, plainjson.Space(b, at+1), depth, allowed); at < 0 {
			return out, -1
		}
		members = append(members, written{name, from, len(out)})
		if at = plainjson.Space(b, at); at == len(b) || b[at] != ',' && b[at] != '}' {
			return out, -1
		}
		out = append(out, b[at])
		if b[at] == '}' {
			var once bool
			if out, once = sorted(out, members); !once {
				return out, -1
			}
			return out, at + 1
		}
		at = plainjson.Space(b, at+1)
	}
}

// sorted brings the members at the end of out, which are an object's, into the order of their names; false where two have
// the same.
func sorted(out []byte, members []written) ([]byte, bool) {
	byName := func(a, b written) int { return bytes.Compare(a.name, b.name) }
	if !slices.IsSortedFunc(members, byName) {
		first := members[0].from
		var room [512]byte
		before := append(room[:0], out[first:]...)
		slices.SortStableFunc(members, byName)
		out = out[:first]
		for _, m := range members {
			out = append(append(out, before[m.from-first:m.to-first]...), ',')
		}
		out[len(out)-1] = '}'
	}
	for i := 1; i < len(members); i++ {
		if bytes.Equal(members[i].name, members[i-1].name) {
			return out, false
		}
	}
	return out, true
}
