package admission

import (
	"net/http"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/tenant"
)

// Goal: the RateLimit fields name the limits that the tenant has, and what an answer knows of them; HTTP and gRPC say the same.
func TestRateLimitFields(t *testing.T) {
	at := time.Unix(1000, 0)
	all := tenant.Limits{RequestsPerMinute: 60, InputTokensPerMinute: 1000, OutputTokensPerMinute: 500, Concurrency: 20, OpenExecutions: 9}
	few := tenant.Limits{Concurrency: 20}
	const allPolicies = `"requests";q=60;w=60, "input_tokens";q=1000;qu="tokens";w=60, "output_tokens";q=500;qu="tokens";w=60, "concurrency";q=20;qu="concurrent-requests"`
	refusal := func(limit admit.Limit, used, ceiling int64, frees time.Time) admit.Refusal {
		return admit.Refusal{Code: admit.RateLimited, Limit: limit, Used: used, Ceiling: ceiling, At: at, FreesAt: frees}
	}
	for _, c := range []struct {
		name          string
		rates         rates
		policy, state string
	}{
		{"nothing is known", rates{}, "", ""},
		{"admitted", ratesOf(all, admit.Remaining{Requests: 59, InputTokens: 0, OutputTokens: -3, Concurrency: 19}), allPolicies,
			`"requests";r=59, "input_tokens";r=0, "output_tokens";r=0, "concurrency";r=19`},
		{"no limit but the concurrency", ratesOf(few, admit.Remaining{Requests: admit.Unlimited, Concurrency: 1}), `"concurrency";q=20;qu="concurrent-requests"`, `"concurrency";r=1`},
		{"too many requests", ratesOfRefusal(all, refusal(admit.LimitRequests, 60, 60, at.Add(11500*time.Millisecond))), allPolicies, `"requests";r=0;t=12`},
		{"tokens that do not fit", ratesOfRefusal(all, refusal(admit.LimitInputTokens, 990, 1000, at.Add(time.Second))), allPolicies, `"input_tokens";r=10;t=1`},
		{"output tokens", ratesOfRefusal(all, refusal(admit.LimitOutputTokens, 500, 500, at.Add(time.Nanosecond))), allPolicies, `"output_tokens";r=0;t=1`},
		{"no clock frees a call", ratesOfRefusal(all, refusal(admit.LimitConcurrency, 20, 20, at.Add(time.Minute))), allPolicies, `"concurrency";r=0`},
		{"open executions are none of them", ratesOfRefusal(all, refusal(admit.LimitOpenExecutions, 9, 9, time.Time{})), allPolicies, ""},
		{"an estimate that never fits waits for nothing", ratesOfRefusal(all, admit.Refusal{Code: admit.EstimateExceedsLimit, Limit: admit.LimitInputTokens, At: at}), allPolicies, ""},
		{"a quota is no rate", ratesOfRefusal(all, admit.Refusal{Code: admit.TenantQuotaExceeded, Limit: admit.LimitDay, At: at}), allPolicies, ""},
	} {
		h := http.Header{}
		c.rates.write(h)
		if h.Get("RateLimit-Policy") != c.policy || h.Get("RateLimit") != c.state || c.state == "" && h.Values("RateLimit") != nil {
			t.Errorf("%s: %v", c.name, h)
		}
		over := c.rates.metadata()
		for name, want := range map[string]string{"ratelimit-policy": c.policy, "ratelimit": c.state} {
			if got := over.Get(name); len(got) > 1 || len(got) == 1 && got[0] != want || len(got) == 0 && want != "" {
				t.Errorf("%s over gRPC: %v", c.name, over)
			}
		}
	}
}

func BenchmarkRateLimitFields(b *testing.B) {
	r := ratesOf(tenant.Limits{RequestsPerMinute: 600, InputTokensPerMinute: 1_000_000, OutputTokensPerMinute: 500_000, Concurrency: 200},
		admit.Remaining{Requests: 599, InputTokens: 999_000, OutputTokens: 499_500, Concurrency: 199})
	h := http.Header{}
	b.ReportAllocs()
	for b.Loop() {
		r.write(h)
	}
}
