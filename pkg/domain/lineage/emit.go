package lineage

import (
	"strings"
	"unicode/utf8"
)

// Emit writes the context as headers that every W3C reader takes: our members on the left, then as many of the foreign
// ones as fit into 32. Free text is percent-encoded; an id that is empty, or too long once encoded, is left out. Without
// a trace id both are empty. For orchestrators in Go that use this package as a library: no service of
// ours makes calls to pass a context on in.
func (c Context) Emit() (traceparent, tracestate string) {
	if c.TraceID == "" || c.SpanID == "" {
		return "", ""
	}
	flags := "00"
	if c.Sampled {
		flags = "01"
	}
	var members []string
	for _, m := range [...]struct{ key, id string }{
		{keyTenant, c.TenantID}, {keyRoot, c.RootExecutionID}, {keyParent, c.ParentAgentID}, {keyAgent, c.AgentID}, {keyCost, c.CostCenter},
	} {
		if v := escape(m.id); v != "" && len(v) <= maxValue {
			members = append(members, m.key+"="+v)
		}
	}
	room := maxMembers - len(members)
	members = append(members, c.Foreign[:min(room, len(c.Foreign))]...)
	return "00-" + c.TraceID + "-" + c.SpanID + "-" + flags, strings.Join(members, ",")
}

const upperHex = "0123456789ABCDEF"

// escape percent-encodes all but letters, digits and ._:-/@ ; the escape sign itself included.
func escape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		ch := s[i]
		if letterOrDigit(ch) || 'A' <= ch && ch <= 'Z' || strings.IndexByte("._:-/@", ch) >= 0 {
			b.WriteByte(ch)
		} else {
			b.WriteByte('%')
			b.WriteByte(upperHex[ch>>4])
			b.WriteByte(upperHex[ch&15])
		}
	}
	return b.String()
}

// unescape takes percent-encoding back. A text that is not valid encoding is taken as it stands (not every sender
// encodes); ok is false if the result is no printable text.
func unescape(s string) (string, bool) {
	if !strings.Contains(s, "%") {
		return s, s != ""
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b.WriteByte(s[i])
			continue
		}
		if i+2 >= len(s) || nibble(s[i+1]) < 0 || nibble(s[i+2]) < 0 {
			return s, true
		}
		b.WriteByte(byte(nibble(s[i+1])<<4 | nibble(s[i+2])))
		i += 2
	}
	out := b.String()
	printable := utf8.ValidString(out) && !strings.ContainsFunc(out, func(r rune) bool { return r < 0x20 || r == 0x7f })
	return out, printable && out != ""
}

func nibble(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
