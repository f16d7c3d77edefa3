package migrate

import (
	"strings"
	"unicode"
)

// Split cuts a ClickHouse script at the semicolons between its statements, without comments that precede a statement.
// It knows what may hide a semicolon: '…', "…" and `…` (a backslash escapes, a doubled quote is two strings in a row),
// -- and # (followed by a space or !) to the end of the line, and /* … */. An unclosed one reaches to the end of the script.
// Text after the last semicolon is a statement too; blank ones are dropped.
func Split(script string) []string {
	var out []string
	for script != "" {
		script = trimComments(script)
		end := statementEnd(script)
		if s := strings.TrimSpace(script[:end]); s != "" {
			out = append(out, s)
		}
		script = strings.TrimPrefix(script[end:], ";")
	}
	return out
}

// trimComments drops white space and comments from the front.
func trimComments(s string) string {
	for {
		s = strings.TrimLeftFunc(s, unicode.IsSpace)
		n := commentLen(s)
		if n == 0 {
			return s
		}
		s = s[n:]
	}
}

// statementEnd is the index of the semicolon that ends the statement at the front, or the length of s.
func statementEnd(s string) int {
	for i := 0; i < len(s); {
		switch n := commentLen(s[i:]); {
		case n > 0:
			i += n
		case s[i] == '\'' || s[i] == '"' || s[i] == '`':
			i += quotedLen(s[i:])
		case s[i] == ';':
			return i
		default:
			i++
		}
	}
	return len(s)
}

// commentLen is the length of the comment that s starts with, 0 if there is none.
func commentLen(s string) int {
	end := ""
	switch {
	case strings.HasPrefix(s, "--"), strings.HasPrefix(s, "# "), strings.HasPrefix(s, "#!"):
		end = "\n"
	case strings.HasPrefix(s, "/*"):
		end = "*/"
	default:
		return 0
	}
	if i := strings.Index(s[1:], end); i >= 0 {
		return 1 + i + len(end)
	}
	return len(s)
}

// quotedLen is the length of the quoted text that s starts with.
func quotedLen(s string) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case s[0]:
			return i + 1
		}
	}
	return len(s)
}
