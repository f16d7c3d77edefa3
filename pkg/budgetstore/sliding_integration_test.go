//go:build integration

package budgetstore

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/window"
	"github.com/weir-project/weir/pkg/testkit"
)

// passed is one admitted call, with what it counts as now.
type passed struct {
	at  time.Time
	ref Ref
	admit.Estimate
}

// sums are what the calls after an instant count as: requests, input, output, nano-dollars.
func sums(list []passed, from time.Time) (sum [4]int64) {
	for _, p := range list {
		if p.at.After(from) {
			for i, n := range [...]int64{1, p.InputTokens, p.OutputTokens, int64(p.Nanos)} {
				sum[i] += n
			}
		}
	}
	return sum
}

// For each rate and for the dollars of a minute, of the tenant and of a sub-scope: no 60 s ever hold more than the limit, and
// nobody is refused who would fit into 61 s. Settles below the estimate give room back.
func TestSlidingMinute(t *testing.T) {
	url := testkit.Redis(t)
	none := [4]int64{1 << 40, 1 << 40, 1 << 40, 1 << 40}
	for i, c := range []struct {
		name    string
		limit   int64
		refusal admit.Limit
	}{
		{"requests", 20, admit.LimitRequests}, {"input", 3000, admit.LimitInputTokens}, {"output", 3000, admit.LimitOutputTokens},
		{"dollars", 1000, admit.LimitMinute}, {"dollars of a scope", 1000, admit.LimitMinute},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w, limits := newWorldAt(t, url), none
			limits[min(i, 3)] = c.limit
			w.limits.Requests, w.limits.InputTokens, w.limits.OutputTokens = limits[0], limits[1], limits[2]
			scope := ScopeLimit{Kind: window.Agent, ID: "a", Minute: admit.NoCeiling(), Day: admit.NoCeiling(), Month: admit.NoCeiling()}
			if i == 4 {
				scope.Minute = admit.Hard(money.Nano(c.limit))
			} else {
				w.limits.Minute = admit.Hard(money.Nano(limits[3]))
			}
			w.slide(rand.New(rand.NewPCG(7, uint64(i))), limits, c.refusal, scope)
		})
	}
}

func (w *world) slide(r *rand.Rand, limits [4]int64, refusal admit.Limit, scope ScopeLimit) {
	var list []passed
	refused := 0
	for range 3000 {
		w.clock.advance(time.Duration(r.Int64N(3000)) * time.Millisecond)
		if n := len(list); n > 0 && r.IntN(3) == 0 {
			p := &list[n-1-r.IntN(min(n, 9))]
			less := admit.Estimate{Nanos: p.Nanos - money.Nano(r.Int64N(int64(p.Nanos)+1)), InputTokens: r.Int64N(p.InputTokens + 1), OutputTokens: p.OutputTokens}
			ending, err := w.store.Settle(w.t.Context(), p.ref, less)
			if w.must(err); ending.Applied {
				p.Estimate = less
			}
		}
		q := w.request(money.Nano(1 + r.IntN(120)))
		q.Estimate.InputTokens, q.Estimate.OutputTokens, q.Scopes = r.Int64N(400), r.Int64N(400), []ScopeLimit{scope}
		reply := w.reserve(q)
		switch at := reply.Answer.ReservedAt; reply.Verdict {
		case Admitted:
			list = append(list, passed{at, Ref{Tenant: w.tenant, ID: q.ID, ReservedAt: at}, q.Estimate})
			for i, sum := range sums(list, at.Add(-time.Minute)) {
				if sum > limits[i] {
					w.t.Fatalf("figure %d: %d within 60 s, %d allowed", i, sum, limits[i])
				}
			}
		case Refused:
			refused++
			sum := sums(list, w.clock.now().Add(-61*time.Second))
			fits := sum[0] < limits[0] && sum[1]+q.Estimate.InputTokens <= limits[1] && sum[2]+q.Estimate.OutputTokens <= limits[2] && sum[3]+int64(q.Estimate.Nanos) <= limits[3]
			if fits || reply.Refusal.Limit != refusal {
				w.t.Fatalf("refused %+v with %v in 61 s", reply.Refusal, sum)
			}
			w.checkFrees(reply.Refusal)
		default:
			w.t.Fatalf("verdict %d", reply.Verdict)
		}
		list = list[max(0, len(list)-500):]
	}
	if refused < 100 {
		w.t.Errorf("only %d refused", refused)
	}
}

// checkFrees: a refusal by a window of a minute says when to come again: later, and within 61 s.
func (w *world) checkFrees(r admit.Refusal) {
	if wait := r.FreesAt.Sub(r.At); wait <= 0 || wait > 61*time.Second {
		w.t.Fatalf("frees in %s: %+v", wait, r)
	}
}
