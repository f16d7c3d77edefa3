//go:build integration

package budgetstore

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/testkit"
)

// pipelined is how many calls share a round trip, and how many holds are open at a time.
const pipelined = 64

// BenchmarkReserve is the whole decision with an execution, next to a trivial EVALSHA with the same keys and arguments in
// the same run. redis_us/op is Redis' own time by INFO commandstats; the calls are pipelined, as under load.
func BenchmarkReserve(b *testing.B) {
	url := testkit.Redis(b)
	for _, calls := range []int{10, 50_000} {
		for name, script := range map[string]*redis.Script{"reserve": nil, "trivial": redis.NewScript("return 1")} {
			b.Run(fmt.Sprintf("%s/window=%d", name, calls), func(b *testing.B) {
				w := newWorldAt(b, url)
				w.limits = admit.Limits{Requests: 1 << 40, InputTokens: 1 << 40, OutputTokens: 1 << 40, Concurrency: 1 << 40,
					Minute: admit.NoCeiling(), Day: admit.NoCeiling(), Month: admit.NoCeiling(), Ladder: w.limits.Ladder}
				if script == nil {
					script = w.store.scripts.reserve
				}
				w.must(script.Load(b.Context(), w.store.client).Err())
				w.bench(b, script, time.Minute/time.Duration(calls))
			})
		}
	}
}

func (w *world) bench(b *testing.B, script *redis.Script, gap time.Duration) {
	b.Helper()
	var evals []*redis.Cmd
	w.must(w.store.client.ConfigResetStat(b.Context()).Err())
	b.ResetTimer()
	for done := 0; done < b.N; done += pipelined {
		b.StopTimer()
		batch, free := w.store.client.Pipeline(), w.store.client.Pipeline()
		evals = evals[:0]
		for range pipelined {
			w.clock.advance(gap)
			r := w.request(1000)
			r.Estimate.InputTokens, r.Estimate.OutputTokens, r.Context = 900, 300, make([]byte, 200)
			r.Execution = admit.Execution{Root: "root", Depth: 1, ExecutionLimits: admit.ExecutionLimits{MaxCost: money.MaxNano - 1, MaxDepth: 9}}
			keys, args := w.store.reserveCall(&r)
			evals = append(evals, script.EvalSha(b.Context(), batch, keys, args...))
			free.HDel(b.Context(), keys[0], r.ID, "{h"+r.ID)
		}
		b.StartTimer()
		_, err := batch.Exec(b.Context())
		b.StopTimer()
		w.must(err)
		for _, e := range evals {
			if text, _ := e.Val().(string); text != "" && len(text) != nowSize {
				b.Fatalf("reply %q", text)
			}
		}
		_, err = free.Exec(b.Context())
		w.must(err)
		b.StartTimer()
	}
	b.StopTimer()
	info, err := w.store.client.Info(b.Context(), "commandstats").Result()
	w.must(err)
	_, rest, _ := strings.Cut(info, "cmdstat_evalsha:")
	_, rest, _ = strings.Cut(rest, "usec_per_call=")
	text, _, _ := strings.Cut(rest, ",")
	us, err := strconv.ParseFloat(text, 64)
	w.must(err)
	b.ReportMetric(us, "redis_us/op")
}
