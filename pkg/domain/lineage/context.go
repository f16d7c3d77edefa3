package lineage

import "strings"

// Bounds of what is read.
const (
	maxState   = 8 << 10 // bytes of tracestate
	maxMembers = 32      // list members (W3C)
	maxValue   = 256     // bytes of one member's value (W3C)
	maxID      = 128     // bytes of one id, decoded
)

// Context is what a trace context says about a call. Empty means that it does not say.
type Context struct {
	// TraceID and SpanID are lower-case hex, 32 and 16 digits.
	TraceID, SpanID string
	Sampled         bool
	// The claims. TenantID may confirm who pays, never decide it.
	TenantID, RootExecutionID, ParentAgentID, AgentID, CostCenter string
	// SkippedMembers counts members that do not parse, Duplicates those whose key had been seen further left.
	SkippedMembers, Duplicates int
	// Foreign are other vendors' members, in order, to be passed on untouched.
	Foreign []string
}

// Contradicts reports that the trace claims another tenant than the one that was verified: a reason for quarantine.
func (c Context) Contradicts(tenant string) bool { return c.TenantID != "" && c.TenantID != tenant }

// Read reads both headers. Without a valid traceparent the zero Context is returned: tracestate must not be read then.
func Read(traceparent, tracestate string) Context {
	c, ok := readParent(strings.TrimSpace(traceparent))
	if !ok {
		return Context{}
	}
	if len(tracestate) > maxState {
		c.SkippedMembers = 1
		return c
	}
	seen := map[string]bool{}
	for part := range strings.SplitSeq(tracestate, ",") {
		part = strings.Trim(part, " \t")
		if part == "" {
			continue // empty members are allowed
		}
		key, value, ok := strings.Cut(part, "=")
		switch {
		case !ok || !validKey(key) || !validValue(value) || len(seen) == maxMembers:
			c.SkippedMembers++
		case seen[key]:
			c.Duplicates++ // the left-most is the newest
		default:
			seen[key] = true
			c.take(key, value, part)
		}
	}
	return c
}

// take reads one valid member: one of the five named ones, the compact one, or somebody else's.
func (c *Context) take(key, value, member string) {
	switch to := c.field(key); {
	case to != nil:
		c.set(to, value)
	case key == compactKey || key == compactAlias:
		for sub := range strings.SplitSeq(value, ";") {
			name, v, ok := strings.Cut(sub, ":")
			if to := c.compactField(name); ok && to != nil {
				c.set(to, v)
			}
		}
	default:
		c.Foreign = append(c.Foreign, member)
	}
}

// set stores a decoded id once: what stands further left wins.
func (c *Context) set(to *string, value string) {
	id, ok := unescape(value)
	if !ok || len(id) > maxID {
		c.SkippedMembers++
		return
	}
	if *to != "" {
		c.Duplicates++
		return
	}
	*to = id
}

// Keys of the members (testdata/trace_context.json has cases). The compact form is one member, weir=t:…;r:…;p:…;c:…;k:…, which
// survives truncation better than five; acct is read as the same.
const (
	keyTenant    = "tenant_id"
	keyRoot      = "root_execution_id"
	keyParent    = "parent_agent_id"
	keyAgent     = "current_agent_id"
	keyCost      = "cost_center"
	compactKey   = "weir"
	compactAlias = "acct"
)

func (c *Context) field(key string) *string {
	switch key {
	case keyTenant:
		return &c.TenantID
	case keyRoot:
		return &c.RootExecutionID
	case keyParent:
		return &c.ParentAgentID
	case keyAgent:
		return &c.AgentID
	case keyCost:
		return &c.CostCenter
	}
	return nil
}

func (c *Context) compactField(name string) *string {
	switch name {
	case "t":
		return &c.TenantID
	case "r":
		return &c.RootExecutionID
	case "p":
		return &c.ParentAgentID
	case "c":
		return &c.AgentID
	case "k":
		return &c.CostCenter
	}
	return nil
}

// readParent reads 00-<32 hex>-<16 hex>-<2 hex>. A later version may be longer; its first four fields are read.
func readParent(s string) (Context, bool) {
	const length = 55
	if len(s) < length || s[2] != '-' || s[35] != '-' || s[52] != '-' {
		return Context{}, false
	}
	version, trace, span, flags := s[:2], s[3:35], s[36:52], s[53:55]
	if !hex(version) || version == "ff" || !hex(trace) || !hex(span) || !hex(flags) || zeros(trace) || zeros(span) {
		return Context{}, false
	}
	if len(s) > length && (version == "00" || s[length] != '-') {
		return Context{}, false
	}
	sampled := strings.IndexByte("13579bdf", flags[1]) >= 0
	return Context{TraceID: trace, SpanID: span, Sampled: sampled}, true
}

func hex(s string) bool { return strings.Trim(s, "0123456789abcdef") == "" }

func zeros(s string) bool { return strings.Trim(s, "0") == "" }

// validKey is the grammar of Trace Context level 2, which includes level 1.
func validKey(s string) bool {
	if s == "" || len(s) > 256 || !letterOrDigit(s[0]) {
		return false
	}
	for i := range len(s) {
		if !letterOrDigit(s[i]) && strings.IndexByte("_-*/@", s[i]) < 0 {
			return false
		}
	}
	return true
}

func letterOrDigit(b byte) bool { return 'a' <= b && b <= 'z' || '0' <= b && b <= '9' }

func validValue(s string) bool {
	if s == "" || len(s) > maxValue {
		return false
	}
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e || s[i] == '=' || s[i] == ',' {
			return false
		}
	}
	return true
}
