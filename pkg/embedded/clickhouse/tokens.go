package clickhouse

import "strings"

// token is one lexical piece of a statement. Comments and white space are dropped.
type token struct {
	kind       tokenKind
	text       string // a word in upper case, a quoted name without its quotes, or one character
	start, end int    // byte range in the source
	depth      int    // open brackets before it
}

type tokenKind uint8

const (
	word tokenKind = iota
	quotedName
	literal
	punct
	broken // an unfinished quote, comment or heredoc
)

// tokenize splits SQL as ClickHouse's lexer does, as far as is needed to tell statements apart: quotes with doubled
// quotes and backslashes, heredocs, comments of the three kinds.
func tokenize(sql string) []token {
	var out []token
	depth := 0
	for i := 0; i < len(sql); {
		c := sql[i]
		if n := skipBlank(sql[i:]); n != 0 {
			if n < 0 {
				return append(out, token{kind: broken, start: i, end: len(sql), depth: depth})
			}
			i += n
			continue
		}
		t := token{start: i, depth: depth}
		switch {
		case c == '\'' || c == '"' || c == '`':
			t.kind, t.text, t.end = quoted(sql, i)
		case c == '$' && heredocEnd(sql, i) > 0:
			t.kind, t.end = literal, heredocEnd(sql, i)
		case isWord(c):
			t.end = i + 1
			for t.end < len(sql) && isWord(sql[t.end]) {
				t.end++
			}
			t.kind, t.text = word, strings.ToUpper(sql[i:t.end])
		default:
			t.kind, t.text, t.end = punct, sql[i:i+1], i+1
			switch c {
			case '(', '[', '{':
				depth++
			case ')', ']', '}':
				depth--
				t.depth = depth
			}
		}
		out = append(out, t)
		i = t.end
	}
	return out
}

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

// skipBlank is the length of white space or of a comment at the start of s; 0 if there is neither, -1 if unfinished.
func skipBlank(s string) int {
	switch {
	case strings.ContainsRune(" \t\r\n\f\v", rune(s[0])):
		return 1
	case strings.HasPrefix(s, "--"), strings.HasPrefix(s, "# "), strings.HasPrefix(s, "#!"):
		if i := strings.IndexByte(s, '\n'); i >= 0 {
			return i + 1
		}
		return len(s)
	case strings.HasPrefix(s, "/*"):
		if i := strings.Index(s[2:], "*/"); i >= 0 {
			return i + 4
		}
		return -1
	}
	return 0
}

// quoted reads a string or a quoted name that starts at i.
func quoted(sql string, i int) (tokenKind, string, int) {
	q := sql[i]
	kind := quotedName
	if q == '\'' {
		kind = literal
	}
	var text strings.Builder
	for j := i + 1; j < len(sql); j++ {
		switch {
		case sql[j] == '\\' && j+1 < len(sql):
			j++
			text.WriteByte(sql[j])
		case sql[j] == q && j+1 < len(sql) && sql[j+1] == q:
			j++
			text.WriteByte(q)
		case sql[j] == q:
			return kind, text.String(), j + 1
		default:
			text.WriteByte(sql[j])
		}
	}
	return broken, "", len(sql)
}

// heredocEnd is the end of $tag$…$tag$ that starts at i, 0 if none does.
func heredocEnd(sql string, i int) int {
	j := i + 1
	for j < len(sql) && isWord(sql[j]) {
		j++
	}
	if j >= len(sql) || sql[j] != '$' {
		return 0
	}
	tag := sql[i : j+1]
	if k := strings.Index(sql[j+1:], tag); k >= 0 {
		return j + 1 + k + len(tag)
	}
	return 0
}
