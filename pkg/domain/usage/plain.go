package usage

// Bare usage objects, and small answers, are plain JSON: strings of printable ASCII without escapes, whole numbers that
// are not negative, literals, objects, arrays. The two usual kinds are read here in one pass, several times faster than
// by encoding/json, which every settle and every event pays. Whatever is not plain, says something twice, or has a
// member that is rare, is left to encoding/json, which alone says what is an error: a fuzz test holds the two against
// each other.

// maxPlainDepth bounds how deep a plain value is.
const maxPlainDepth = 6

// plainReader reads plain JSON. Its methods report whether it was plain; at is of no use after a no.
type plainReader struct {
	text []byte
	at   int
	// unread: a member was skipped that may count tokens, or has members that may.
	unread bool
}

// plainly reads one object, whose members member takes by their names. encoding/json finds a member by a name in any
// case, so names that are not all lower case are not plain.
func (u *reading) plainly(raw []byte, member func(name []byte, r *plainReader) bool) bool {
	r := plainReader{text: raw}
	if !r.object(member) {
		return false
	}
	r.space()
	whole := r.at == len(raw)
	u.allRead = whole && !r.unread
	return whole
}

func (r *plainReader) space() {
	for r.at < len(r.text) {
		switch r.text[r.at] {
		case ' ', '\n', '\t', '\r':
			r.at++
		default:
			return
		}
	}
}

// next passes white space and then b.
func (r *plainReader) next(b byte) bool {
	r.space()
	if r.at < len(r.text) && r.text[r.at] == b {
		r.at++
		return true
	}
	return false
}

func (r *plainReader) object(member func(name []byte, r *plainReader) bool) bool {
	if !r.next('{') {
		return false
	}
	if r.next('}') {
		return true
	}
	for {
		name, ok := r.string()
		if !ok || !r.next(':') || !member(name, r) {
			return false
		}
		if !r.next(',') {
			return r.next('}')
		}
	}
}

// string reads a string, which shares the text's memory.
func (r *plainReader) string() ([]byte, bool) {
	if !r.next('"') {
		return nil, false
	}
	from := r.at
	for ; r.at < len(r.text); r.at++ {
		switch c := r.text[r.at]; {
		case c == '"':
			r.at++
			return r.text[from : r.at-1], true
		case c < ' ' || c > '~' || c == '\\':
			return nil, false
		}
	}
	return nil, false
}

// number reads a whole number that is not negative, of up to 15 digits.
func (r *plainReader) number() (n int64, ok bool) {
	r.space()
	from := r.at
	for ; r.at < len(r.text) && r.text[r.at] >= '0' && r.text[r.at] <= '9'; r.at++ {
		n = n*10 + int64(r.text[r.at]-'0')
	}
	digits := r.at - from
	if digits == 0 || digits > 15 || digits > 1 && r.text[from] == '0' {
		return 0, false
	}
	if r.at < len(r.text) && (r.text[r.at] == '.' || r.text[r.at] == 'e' || r.text[r.at] == 'E') {
		return 0, false
	}
	return n, true
}

// literal passes a word.
func (r *plainReader) literal(word string) bool {
	r.space()
	if len(r.text)-r.at < len(word) || string(r.text[r.at:r.at+len(word)]) != word {
		return false
	}
	r.at += len(word)
	return true
}

// count reads a count that was not there yet; null leaves it so.
func (r *plainReader) count(into *count) bool {
	if into.set {
		return false
	}
	if r.literal("null") {
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
	r.space()
	if r.at < len(r.text) && r.text[r.at] != '"' {
		return r.pass(nil)
	}
	s, ok := r.string()
	*into = text(s)
	return ok
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
	r.space()
	from := r.at
	ok := r.value(1)
	if value := r.text[from:r.at]; ok && (value[0] == '{' || value[0] == '[' || positive(value) && countsTokens(name)) {
		r.unread = true
	}
	return ok
}

// value passes a value of any kind.
func (r *plainReader) value(depth int) bool {
	r.space()
	if r.at == len(r.text) || depth > maxPlainDepth {
		return false
	}
	switch r.text[r.at] {
	case '"':
		_, ok := r.string()
		return ok
	case '{':
		return r.object(func(_ []byte, r *plainReader) bool { return r.value(depth + 1) })
	case '[':
		return r.array(depth)
	case 't':
		return r.literal("true")
	case 'f':
		return r.literal("false")
	case 'n':
		return r.literal("null")
	}
	_, ok := r.number()
	return ok
}

func (r *plainReader) array(depth int) bool {
	r.at++
	if r.next(']') {
		return true
	}
	for r.value(depth + 1) {
		if !r.next(',') {
			return r.next(']')
		}
	}
	return false
}
