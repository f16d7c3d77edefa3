package admission

import (
	"net/http"
	"strconv"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/tenant"
)

// rates is how the tenant's rates and its concurrency stand, as far as an answer knows: the RateLimit fields of the IETF draft
// (draft-ietf-httpapi-ratelimit-headers), over HTTP and gRPC. The zero value says nothing.
type rates struct {
	of tenant.Limits
	// left is what each leaves, in the order of policies, where the bit of its place is set in known.
	left  [4]int64
	known uint8
	// wait is how long until what was refused could fit; zero where none of them refused, or time alone is not enough.
	wait time.Duration
}

const allKnown = 1<<4 - 1

// Names and parameters of the policies, which clients know them by. A token is no quota unit that the draft registers; without
// one it would be taken for a request.
const (
	perMinute  = ";w=60"
	ofTokens   = ";qu=\"tokens\"" + perMinute
	concurrent = ";qu=\"concurrent-requests\""
)

// policies are the limits, in the order in which they are written: name, limit and what follows it.
func (r rates) policies() [4]struct {
	name  string
	limit int64
	unit  string
} {
	return [4]struct {
		name  string
		limit int64
		unit  string
	}{{`"requests"`, r.of.RequestsPerMinute, perMinute}, {`"input_tokens"`, r.of.InputTokensPerMinute, ofTokens},
		{`"output_tokens"`, r.of.OutputTokensPerMinute, ofTokens}, {`"concurrency"`, r.of.Concurrency, concurrent}}
}

// ratesOf are those after an admission.
func ratesOf(l tenant.Limits, left admit.Remaining) rates {
	return rates{of: l, left: [4]int64{left.Requests, left.InputTokens, left.OutputTokens, left.Concurrency}, known: allKnown}
}

// ratesOfRefusal know only the one that refused: the decision says nothing of the others.
func ratesOfRefusal(l tenant.Limits, r admit.Refusal) rates {
	out := rates{of: l}
	place := -1
	if r.Code == admit.RateLimited {
		switch r.Limit {
		case admit.LimitRequests:
			place = 0
		case admit.LimitInputTokens:
			place = 1
		case admit.LimitOutputTokens:
			place = 2
		case admit.LimitConcurrency:
			place = 3
		}
	}
	if place < 0 {
		return out
	}
	out.known, out.left[place] = 1<<place, r.Ceiling-r.Used
	if r.Limit != admit.LimitConcurrency && !r.FreesAt.IsZero() { // a call that ends frees the concurrency, no clock
		out.wait = r.FreesAt.Sub(r.At)
	}
	return out
}

// fields are RateLimit-Policy and RateLimit, "" where there is nothing to say. Every reservation writes them, so both are one
// text: half a microsecond (BenchmarkRateLimitFields).
func (r rates) fields() (policy, state string) {
	if r.of == (tenant.Limits{}) {
		return "", ""
	}
	var space [384]byte
	b := space[:0]
	all := r.policies()
	for _, p := range all {
		if p.limit > 0 {
			b = append(listed(b, 0), p.name...)
			b = append(strconv.AppendInt(append(b, ";q="...), p.limit, 10), p.unit...)
		}
	}
	end := len(b)
	for i, p := range all {
		if p.limit > 0 && r.known&(1<<i) != 0 {
			b = append(listed(b, end), p.name...)
			b = strconv.AppendInt(append(b, ";r="...), max(0, r.left[i]), 10)
			if r.wait > 0 {
				b = strconv.AppendInt(append(b, ";t="...), int64((r.wait+time.Second-1)/time.Second), 10)
			}
		}
	}
	text := string(b)
	return text[:end], text[end:]
}

// listed begins a further item of a list that began at from.
func listed(b []byte, from int) []byte {
	if len(b) > from {
		b = append(b, ", "...)
	}
	return b
}

// write sets the fields over HTTP.
func (r rates) write(h http.Header) {
	policy, state := r.fields()
	if policy == "" {
		return
	}
	values := [...]string{policy, state} // the names are as Set would write them
	h["Ratelimit-Policy"] = values[0:1:1]
	if state != "" {
		h["Ratelimit"] = values[1:2:2]
	}
}

// metadata are the fields over gRPC, nil for none.
func (r rates) metadata() metadata.MD {
	policy, state := r.fields()
	switch {
	case policy == "":
		return nil
	case state == "":
		return metadata.Pairs("ratelimit-policy", policy)
	default:
		return metadata.Pairs("ratelimit-policy", policy, "ratelimit", state)
	}
}
