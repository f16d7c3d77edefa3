// Package plainjson finds its way in the JSON that programs usually send: strings of printable ASCII without escapes, numbers,
// literals, objects and arrays, no deeper than MaxDepth. In one pass, it is several times faster than encoding/json.
//
// It owns the grammar. What is not plain, or not JSON, is not its business: whoever asks leaves that to encoding/json, which
// alone says what is an error, so that a plain reading is always the one that encoding/json has. Fuzz tests of pkg/usageevent
// and pkg/domain/usage hold the two against each other.
//
// Bound: MaxDepth.
package plainjson

import "bytes"

// MaxDepth is how many objects and arrays are in each other.
const MaxDepth = 8

// Space is the first place at or after at that is no white space.
func Space(b []byte, at int) int {
	for at < len(b) && (b[at] == ' ' || b[at] == '\n' || b[at] == '\t' || b[at] == '\r') {
		at++
	}
	return at
}

// Value is the end of the value that begins at at, which is depth levels deep; -1 where it is not plain.
func Value(b []byte, at, depth int) int {
	if at >= len(b) || depth > MaxDepth {
		return -1
	}
	switch c := b[at]; {
	case c == '"':
		return String(b, at)
	case c == '{':
		return Object(b, at, depth+1, func(_ []byte, at, depth int) int { return Value(b, at, depth) })
	case c == '[':
		return Array(b, at, depth+1, Value)
	case c == '-' || c >= '0' && c <= '9':
		return number(b, at)
	}
	for _, literal := range []string{"true", "false", "null"} {
		if bytes.HasPrefix(b[at:], []byte(literal)) {
			return at + len(literal)
		}
	}
	return -1
}

// String is the end of the string that begins at at; -1 where it is not plain, or no string.
func String(b []byte, at int) int {
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

// number knows JSON's grammar: -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?
func number(b []byte, at int) int {
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

// Object is the end of the object at at. member is told the name of each member and where its value begins, and says
// where that ends, or -1.
func Object(b []byte, at, depth int, member func(name []byte, at, depth int) int) int {
	if at = Space(b, at+1); at < len(b) && b[at] == '}' {
		return at + 1
	}
	for {
		end := String(b, at)
		if end < 0 {
			return -1
		}
		name := b[at+1 : end-1]
		if at = Space(b, end); at == len(b) || b[at] != ':' {
			return -1
		}
		if at = member(name, Space(b, at+1), depth); at < 0 {
			return -1
		}
		if at = Space(b, at); at == len(b) {
			return -1
		}
		switch b[at] {
		case '}':
			return at + 1
		case ',':
			at = Space(b, at+1)
		default:
			return -1
		}
	}
}

// Array is the end of the array at at. element is where the value that begins at at ends, or -1.
func Array(b []byte, at, depth int, element func(b []byte, at, depth int) int) int {
	if at = Space(b, at+1); at < len(b) && b[at] == ']' {
		return at + 1
	}
	for {
		if at = element(b, at, depth); at < 0 {
			return -1
		}
		if at = Space(b, at); at == len(b) {
			return -1
		}
		switch b[at] {
		case ']':
			return at + 1
		case ',':
			at = Space(b, at+1)
		default:
			return -1
		}
	}
}
