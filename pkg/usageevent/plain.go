package usageevent

import (
	"bytes"
	"slices"
)

// Plain JSON is what nearly every event consists of: strings of printable ASCII without escapes, numbers, literals,
// objects and arrays, no deeper than maxPlainDepth. It is read here in one pass, several times faster than by
// encoding/json. Whatever is not plain, or not JSON, is left to that: a plain reading is never an error, and is always
// the one that encoding/json has (a fuzz test holds them against each other).

const maxPlainDepth = 8

// plainMembers are the members of an object; false where it is not plain, or has a name twice.
func plainMembers(raw []byte) (object, bool) {
	at := space(raw, 0)
	if at == len(raw) || raw[at] != '{' {
		return nil, false
	}
	out := make(object, 16)
	end := plainObject(raw, at, 1, func(name, value []byte) bool {
		_, twice := out[string(name)]
		out[string(name)] = value
		return !twice
	})
	return out, end > 0 && space(raw, end) == len(raw)
}

// space is the first place at or after at that is no white space.
func space(b []byte, at int) int {
	for at < len(b) && (b[at] == ' ' || b[at] == '\n' || b[at] == '\t' || b[at] == '\r') {
		at++
	}
	return at
}

// plainValue is the end of the value that begins at at; -1 where it is not plain.
func plainValue(b []byte, at, depth int) int {
	if at >= len(b) || depth > maxPlainDepth {
		return -1
	}
	switch c := b[at]; {
	case c == '"':
		return plainString(b, at)
	case c == '{':
		return plainObject(b, at, depth+1, func(_, _ []byte) bool { return true })
	case c == '[':
		return plainArray(b, at, depth+1, func([]byte) {})
	case c == '-' || c >= '0' && c <= '9':
		return plainNumber(b, at)
	}
	for _, literal := range []string{"true", "false", "null"} {
		if bytes.HasPrefix(b[at:], []byte(literal)) {
			return at + len(literal)
		}
	}
	return -1
}

func plainString(b []byte, at int) int {
	if at >= len(b) || b[at] != '"' {
		return -1
	}
	for at++; at < len(b); at++ {
		switch c := b[at]; {
		case c == '"':
			return at + 1
		case c < ' ' || c > '~' || c == '\\':
			return -1
		}
	}
	return -1
}

// plainNumber knows JSON's grammar: -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?
func plainNumber(b []byte, at int) int {
	if b[at] == '-' {
		at++
	}
	whole := digitsFrom(b, at)
	if whole == at || b[at] == '0' && whole > at+1 {
		return -1
	}
	if at = whole; at < len(b) && b[at] == '.' {
		fraction := digitsFrom(b, at+1)
		if fraction == at+1 {
			return -1
		}
		at = fraction
	}
	if at < len(b) && (b[at] == 'e' || b[at] == 'E') {
		if at++; at < len(b) && (b[at] == '+' || b[at] == '-') {
			at++
		}
		exponent := digitsFrom(b, at)
		if exponent == at {
			return -1
		}
		at = exponent
	}
	return at
}

func digitsFrom(b []byte, at int) int {
	for at < len(b) && b[at] >= '0' && b[at] <= '9' {
		at++
	}
	return at
}

// plainObject calls member for each member of the object at at, until it says no, and returns the object's end.
func plainObject(b []byte, at, depth int, member func(name, value []byte) bool) int {
	if at = space(b, at+1); at < len(b) && b[at] == '}' {
		return at + 1
	}
	for {
		end := plainString(b, at)
		if end < 0 {
			return -1
		}
		name := b[at+1 : end-1]
		if at = space(b, end); at == len(b) || b[at] != ':' {
			return -1
		}
		at = space(b, at+1)
		if end = plainValue(b, at, depth); end < 0 || !member(name, b[at:end:end]) {
			return -1
		}
		if at = space(b, end); at == len(b) {
			return -1
		}
		switch b[at] {
		case '}':
			return at + 1
		case ',':
			at = space(b, at+1)
		default:
			return -1
		}
	}
}

// plainArray calls element for each element of the array at at, and returns the array's end.
func plainArray(b []byte, at, depth int, element func([]byte)) int {
	if at = space(b, at+1); at < len(b) && b[at] == ']' {
		return at + 1
	}
	for {
		end := plainValue(b, at, depth)
		if end < 0 {
			return -1
		}
		element(b[at:end])
		if at = space(b, end); at == len(b) {
			return -1
		}
		switch b[at] {
		case ']':
			return at + 1
		case ',':
			at = space(b, at+1)
		default:
			return -1
		}
	}
}

// plainCanonical is Canonical; false where raw is not plain, or has a name twice.
func plainCanonical(raw []byte) ([]byte, bool) {
	at := space(raw, 0)
	end := plainValue(raw, at, 0)
	if end < 0 || space(raw, end) != len(raw) {
		return nil, false
	}
	return appendCanonical(make([]byte, 0, len(raw)), raw[at:end])
}

// appendCanonical appends a plain value without white space, the members of its objects sorted.
func appendCanonical(out, value []byte) ([]byte, bool) {
	ok := true
	add := func(v []byte) {
		var inner bool
		out, inner = appendCanonical(out, v)
		ok = ok && inner
	}
	switch value[0] {
	case '[':
		out = append(out, '[')
		first := len(out)
		plainArray(value, 0, 0, func(v []byte) {
			if len(out) > first {
				out = append(out, ',')
			}
			add(v)
		})
		return append(out, ']'), ok
	case '{':
	default:
		return append(out, value...), true
	}
	type member struct{ name, value []byte }
	var room [12]member // enough for a provider's usage, without the heap
	members := room[:0]
	plainObject(value, 0, 0, func(name, v []byte) bool {
		members = append(members, member{name, v})
		return true
	})
	slices.SortFunc(members, func(a, b member) int { return bytes.Compare(a.name, b.name) })
	out = append(out, '{')
	for i, m := range members {
		if i > 0 {
			out = append(out, ',')
			ok = ok && !bytes.Equal(m.name, members[i-1].name)
		}
		out = append(append(append(out, '"'), m.name...), '"', ':')
		add(m.value)
	}
	return append(out, '}'), ok
}
