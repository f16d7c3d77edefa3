package usageevent

import (
	"bytes"
	"slices"
)

// Plain JSON is what nearly every event consists of: strings of printable ASCII without escapes, numbers, literals,
// objects and arrays, no deeper than maxPlainDepth. It is read here in one pass, several times faster than by
// encoding/json. Whatever is not plain, or not JSON, is left to that: a plain reading is never an error, and is always
// the one that encoding/json has (a fuzz test holds them against each other).
//
// There are four walks of like shape, because they differ in what they make on the way, which is where the time goes:
// plainObject and plainArray find where values end (once.go compares names with them), appendPlain writes members in order,
// usage/plain.go, which as domain may not import this, reads counts by their names and notes what nobody read, and
// admission's quick.go reads requests from a string, whose memory they share. usage/unknown.go is none of them: it goes through
// JSON that is known to be valid, plain or not.

const maxPlainDepth = 8

// plainMembers are the members of an object; false where it is not plain, or has a name twice.
func plainMembers(raw []byte) (object, bool) {
	at := space(raw, 0)
	if at == len(raw) || raw[at] != '{' {
		return nil, false
	}
	out := make(object, 16)
	end := plainObject(raw, at, 1, func(name []byte, at, depth int) int {
		end := plainValue(raw, at, depth)
		if _, twice := out[string(name)]; twice || end < 0 {
			return -1
		}
		out[string(name)] = raw[at:end:end]
		return end
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
		return plainObject(b, at, depth+1, func(_ []byte, at, depth int) int { return plainValue(b, at, depth) })
	case c == '[':
		return plainArray(b, at, depth+1, plainValue)
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

// plainObject is the end of the object at at. member is told the name of each member and where its value begins, and says
// where that ends, or -1.
func plainObject(b []byte, at, depth int, member func(name []byte, at, depth int) int) int {
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
		if at = member(name, space(b, at+1), depth); at < 0 {
			return -1
		}
		if at = space(b, at); at == len(b) {
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

// plainArray is the end of the array at at. element is where the value that begins at at ends, or -1.
func plainArray(b []byte, at, depth int, element func(b []byte, at, depth int) int) int {
	if at = space(b, at+1); at < len(b) && b[at] == ']' {
		return at + 1
	}
	for {
		if at = element(b, at, depth); at < 0 {
			return -1
		}
		if at = space(b, at); at == len(b) {
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

// appendPlain appends to out what Canonical makes of raw; false where raw is not plain, has a name twice, or one that
// allowed, unless it is nil, does not take or that is not all lower case.
func appendPlain(out, raw []byte, allowed func(name []byte) bool) ([]byte, bool) {
	out, end := appendPlainValue(out, raw, space(raw, 0), 0, allowed)
	return out, end >= 0 && space(raw, end) == len(raw)
}

// appendPlainValue appends the value that begins at at, without white space and with the members of its objects sorted,
// and returns its end; -1 where it is not plain.
func appendPlainValue(out, b []byte, at, depth int, allowed func(name []byte) bool) ([]byte, int) {
	if at < len(b) && depth <= maxPlainDepth {
		switch b[at] {
		case '{':
			return appendPlainObject(out, b, at, depth+1, allowed)
		case '[':
			return appendPlainArray(out, b, at, depth+1, allowed)
		}
	}
	end := plainValue(b, at, depth)
	if end < 0 {
		return out, -1
	}
	return append(out, b[at:end]...), end
}

func appendPlainArray(out, b []byte, at, depth int, allowed func(name []byte) bool) ([]byte, int) {
	out = append(out, '[')
	if at = space(b, at+1); at < len(b) && b[at] == ']' {
		return append(out, ']'), at + 1
	}
	for {
		if out, at = appendPlainValue(out, b, at, depth, allowed); at < 0 {
			return out, -1
		}
		if at = space(b, at); at == len(b) || b[at] != ',' && b[at] != ']' {
			return out, -1
		}
		out = append(out, b[at])
		if b[at] == ']' {
			return out, at + 1
		}
		at = space(b, at+1)
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
	if at = space(b, at+1); at < len(b) && b[at] == '}' {
		return append(out, '}'), at + 1
	}
	for {
		end, from := plainString(b, at), len(out)
		if end < 0 {
			return out, -1
		}
		name := b[at+1 : end-1]
		if allowed != nil && (!allowed(name) || hasUpper(name)) {
			return out, -1
		}
		out = append(append(out, b[at:end]...), ':')
		if at = space(b, end); at == len(b) || b[at] != ':' {
			return out, -1
		}
		if out, at = appendPlainValue(out, b, space(b, at+1), depth, allowed); at < 0 {
			return out, -1
		}
		members = append(members, written{name, from, len(out)})
		if at = space(b, at); at == len(b) || b[at] != ',' && b[at] != '}' {
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
		at = space(b, at+1)
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
