package usage

import (
	"bytes"

	"github.com/weir-project/weir/pkg/domain/plainjson"
)

// Bare usage objects, and small answers, are plain JSON (package plainjson). The two usual kinds are read here in one pass,
// several times faster than by encoding/json, which every settle and every event pays. Whatever is not plain, says something
// twice, or has a member that is rare, is left to encoding/json, which alone says what is an error: a fuzz test holds the two
// against each other.

// plainReader reads plain JSON. Its methods read the value that begins at at, and report whether it was plain; at is of no
// use after a no.
type plainReader struct {
	text []byte
	at   int
	// unread: a member was skipped that may count tokens, or has members that may.
	unread bool
}

// plainly reads one object, whose members member takes by their names. encoding/json finds a member by a name in any
// case, so names that are not all lower case are not plain.
func (u *reading) plainly(raw []byte, member func(name []byte, r *plainReader) bool) bool {
	r := plainReader{text: raw, at: plainjson.Space(raw, 0)}
	if !r.object(member) {
		return false
	}
	whole := plainjson.Space(raw, r.at) == len(raw)
	u.allRead = whole && !r.unread
	return whole
}

// here is the byte at hand, 0 at the end.
func (r *plainReader) here() byte {
	if r.at < len(r.text) {
		return r.text[r.at]
	}
	return 0
}

func (r *plainReader) object(member func(name []byte, r *plainReader) bool) bool {
	if r.here() != '{' {
		return false
	}
	r.at = plainjson.Object(r.text, r.at, 1, func(name []byte, at, _ int) int {
		if r.at = at; member(name, r) {
			return r.at
		}
		return -1
	})
	return r.at >= 0
}

// number reads a whole number that is not negative, of up to 15 digits.
func (r *plainReader) number() (n int64, ok bool) {
	from := r.at
	for ; r.at < len(r.text) && r.text[r.at] >= '0' && r.text[r.at] <= '9'; r.at++ {
		n = n*10 + int64(r.text[r.at]-'0')
	}
	digits := r.at - from
	if digits == 0 || digits > 15 || digits > 1 && r.text[from] == '0' {
		return 0, false
	}
	return n, r.here() != '.' && r.here() != 'e' && r.here() != 'E'
}

// null passes the literal.
func (r *plainReader) null() bool {
	if !bytes.HasPrefix(r.text[r.at:], []byte("null")) {
		return false
	}
	r.at += len("null")
	return true
}

// count reads a count that was not there yet; null leaves it so.
func (r *plainReader) count(into *count) bool {
	if into.set {
		return false
	}
	if r.null() {
		return true
	}
	n, ok := r.number()
	*into = count{n, ok}
	return ok
}

// words reads a text that was not there yet; what is no string leaves it so.
func (r *plainReader) words(into *text) bool {
	if *into != "" {
		return false
	}
	from := r.at
	if !r.pass(nil) {
		return false
	}
	if r.text[from] == '"' {
		*into = text(r.text[from+1 : r.at-1])
	}
	return true
}

// skip passes the value of a member that nobody reads.
func (r *plainReader) skip(name []byte) bool {
	for _, c := range name {
		if c >= 'A' && c <= 'Z' {
			return false
		}
	}
	return r.pass(name)
}

// pass passes the value of a member, and notes whether it may count tokens.
func (r *plainReader) pass(name []byte) bool {
	end := plainjson.Value(r.text, r.at, 1)
	if end < 0 {
		return false
	}
	if value := r.text[r.at:end]; value[0] == '{' || value[0] == '[' || positive(value) && countsTokens(name) {
		r.unread = true
	}
	r.at = end
	return true
}
