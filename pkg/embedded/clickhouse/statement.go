package clickhouse

import (
	"slices"
	"strings"
)

// statement is what this front has to know of one SQL statement.
type statement struct {
	text   string
	tokens []token
	verb   string // first keyword in upper case: SELECT, INSERT, CREATE, …
	format string // of a FORMAT clause at the end (reads) or before the data (inserts)
	// For an insert whose data follow in a named format: what is before FORMAT, its SETTINGS, and where data begin.
	target, settings string
	dataAt           int // -1: no such data
}

// parse looks at one statement. It refuses several in one text, as ClickHouse's HTTP interface does.
func parse(text string) (statement, error) {
	s := statement{text: text, tokens: tokenize(text), dataAt: -1}
	first := 0
	for first < len(s.tokens) && s.tokens[first].text == "(" && s.tokens[first].kind == punct {
		first++
	}
	if first == len(s.tokens) || s.tokens[first].kind != word {
		return s, newException(codeSyntax, "Syntax error: empty query or no statement at its beginning. (SYNTAX_ERROR)")
	}
	s.verb = s.tokens[first].text
	if s.verb == "INSERT" && s.parseInsert() {
		return s, nil
	}
	for i, t := range s.tokens {
		switch {
		case t.kind == broken:
			return s, newException(codeSyntax, "Syntax error: a quote or a comment has no end. (SYNTAX_ERROR)")
		case t.kind == punct && t.text == ";" && i != len(s.tokens)-1:
			return s, newException(codeSyntax, "Syntax error: Multi-statements are not allowed. (SYNTAX_ERROR)")
		case i > 0 && t.kind == word && t.text == "FORMAT" && t.depth == 0 && s.endsWithName(i+1):
			s.format = text[s.tokens[i+1].start:s.tokens[i+1].end]
		}
	}
	s.dropLater()
	return s, nil
}

// dropLater takes SYNC (NO DELAY) off a DROP: the library has no thread that empties its queue of dropped tables, so
// such a statement would wait for ever. The name is free at once all the same; sweepDropped frees the disk.
func (s *statement) dropLater() {
	if s.verb != "DROP" && s.verb != "DETACH" && s.verb != "TRUNCATE" {
		return
	}
	n := len(s.tokens)
	for n > 0 && s.tokens[n-1].text == ";" {
		n--
	}
	cut := 0
	switch {
	case n >= 1 && s.tokens[n-1].kind == word && s.tokens[n-1].text == "SYNC":
		cut = 1
	case n >= 2 && s.tokens[n-1].kind == word && s.tokens[n-1].text == "DELAY" && s.tokens[n-2].text == "NO":
		cut = 2
	}
	if cut > 0 {
		s.text = s.text[:s.tokens[n-cut].start]
		s.tokens = s.tokens[:n-cut]
	}
}

// endsWithName reports whether token i is a word after which only a semicolon or SETTINGS may follow: so it is the name
// in a FORMAT clause, not what follows a column that is called format.
func (s *statement) endsWithName(i int) bool {
	if i >= len(s.tokens) || s.tokens[i].kind != word {
		return false
	}
	return i+1 == len(s.tokens) || s.tokens[i+1].text == ";" || s.tokens[i+1].text == "SETTINGS"
}

// parseInsert finds FORMAT name at the top level, before any VALUES, SELECT or FROM INFILE; the rest is data.
func (s *statement) parseInsert() bool {
	settingsAt := -1
	for i, t := range s.tokens {
		if t.kind != word || t.depth != 0 || i == 0 {
			continue
		}
		switch t.text {
		case "VALUES", "SELECT", "WITH", "INFILE", "WATCH":
			return false
		case "SETTINGS":
			settingsAt = i
		case "FORMAT":
			if i+1 == len(s.tokens) || s.tokens[i+1].kind != word {
				return false
			}
			name := s.tokens[i+1]
			s.format = s.text[name.start:name.end]
			if strings.EqualFold(s.format, "Values") {
				s.format = ""
				return false
			}
			s.target, s.dataAt = s.text[:t.start], afterLineBreak(s.text, name.end)
			if settingsAt >= 0 {
				s.target = s.text[:s.tokens[settingsAt].start]
				s.settings = s.text[s.tokens[settingsAt].end:t.start]
			}
			return true
		}
	}
	return false
}

// afterLineBreak skips the blanks, and at most one line break, between a format's name and its data.
func afterLineBreak(text string, at int) int {
	for at < len(text) && (text[at] == ' ' || text[at] == '\t' || text[at] == '\r') {
		at++
	}
	if at < len(text) && text[at] == '\n' {
		at++
	}
	return at
}

// reads reports whether the statement only reads.
func (s *statement) reads() bool {
	switch s.verb {
	case "SELECT", "WITH", "SHOW", "DESCRIBE", "DESC", "EXPLAIN", "EXISTS", "VALUES", "FROM":
		return true
	}
	return false
}

// sessionOnly reports whether the statement changes nothing but a session. Here a session is one request, so it has
// no effect, as in ClickHouse's HTTP interface.
func (s *statement) sessionOnly() bool { return s.verb == "SET" || s.verb == "USE" }

// guard decides whether the read-only user may run a statement. The engine's readonly=1 is the first lock; this is the
// second, for what that lets through: files read by a scalar function or by a quoted path, files written by INTO
// OUTFILE, KILL, and table functions that reach out.
func (s *statement) guard(forbidden map[string]bool) error {
	switch s.verb {
	case "SELECT", "WITH", "SHOW", "DESCRIBE", "DESC", "EXPLAIN":
	default:
		return newException(codeReadonly, "finance: only SELECT, SHOW, DESCRIBE, EXPLAIN and WITH are allowed to this user. (READONLY)")
	}
	for i, t := range s.tokens {
		last := i+1 == len(s.tokens)
		switch {
		case t.kind == word && (t.text == "OUTFILE" || t.text == "INFILE"):
			return newException(codeReadonly, "finance: files are not allowed to this user. (READONLY)")
		case (t.kind == word || t.kind == quotedName) && !last && s.tokens[i+1].text == "(" && forbidden[strings.ToLower(t.text)]:
			return newException(codeReadonly, "finance: the function %s is not allowed to this user. (READONLY)", strings.ToLower(t.text))
		case t.kind == literal && s.follows(i, "FROM", "JOIN"), t.kind == quotedName && s.follows(i, "FROM", "JOIN", ".") && strings.Contains(t.text, "/"):
			return newException(codeReadonly, "finance: files are not allowed to this user. (READONLY)")
		}
	}
	return nil
}

// follows reports whether the token before token i is one of these.
func (s *statement) follows(i int, before ...string) bool {
	return i > 0 && (s.tokens[i-1].kind == word || s.tokens[i-1].kind == punct) && slices.Contains(before, s.tokens[i-1].text)
}
