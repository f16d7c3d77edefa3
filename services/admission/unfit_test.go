//go:build integration

package admission

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/embedded/part"
	"github.com/weir-project/weir/pkg/testkit"
)

// whyUnready is what /readyz says of the epoch; "" where it says ready, or nothing of it.
func (r *replica) whyUnready() string {
	r.w.t.Helper()
	_, out, _ := r.do("GET", "/readyz", "", nil)
	reasons, _ := out["not_ready"].(object)
	why, _ := reasons["epoch"].(string)
	return why
}

// Goal: a replica of which Redis takes no reservation is not ready and says why, the refusals say the same, and both end with the
// cause; who holds something may settle it meanwhile. Method: the replica's clock is wrong in both directions, Redis' memory is
// full, and Redis lacks replicas.
func TestNotReadyWhereNothingIsAdmitted(t *testing.T) {
	w := newWorld(t, one(contract()))
	var ahead atomic.Int64
	w.now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	r := w.start()
	config := func(set string) func() {
		return func() {
			if got := w.redisCommand("CONFIG SET " + set); got != "+OK" {
				t.Fatal(got)
			}
		}
	}
	clock := func(d time.Duration) func() { return func() { ahead.Store(int64(d)) } }
	for i, c := range []struct {
		begin, end  func()
		why, detail string
	}{
		{clock(time.Hour), clock(0), "behind this replica's", "clocks"},
		{clock(-10 * time.Second), clock(0), "ahead of this replica's", "clocks"},
		{config("maxmemory 1000000"), config("maxmemory 0"), "maxmemory", "memory is full"},
		{config("min-replicas-to-write 1"), config("min-replicas-to-write 0"), "min-replicas-to-write", "too few of its replicas"},
	} {
		held := fmt.Sprint("held", i)
		status, out := r.reserve("acme", held, 1)
		w.want("before", status, out, 201)
		c.begin()
		w.eventually("it is not ready, and says why: "+c.why, func() error {
			if why, state := r.whyUnready(), r.metric("weir_recovery_state"); !strings.Contains(why, c.why) || state != 2 {
				return fmt.Errorf("%q, state %v", why, state)
			}
			return nil
		})
		status, out = r.reserve("acme", fmt.Sprint("no", i), 1)
		w.want("while "+c.why, status, out, 503, "code", "budget_store_unavailable")
		if !strings.Contains(fmt.Sprint(out["detail"]), c.detail) {
			t.Errorf("%s: refused with %v", c.why, out)
		}
		status, out = r.settle("acme", held, object{"meters": object{"output_tokens": 1}})
		w.want("settle while "+c.why, status, out, 200)
		c.end()
		w.eventually("it is ready again after "+c.why, func() error {
			if status, out, _ := r.do("GET", "/readyz", "", nil); status != 200 || r.metric("weir_recovery_state") != 0 {
				return fmt.Errorf("%d %v, state %v", status, out, r.metric("weir_recovery_state"))
			}
			return nil
		})
		status, out = r.reserve("acme", fmt.Sprint("yes", i), 1)
		w.want("after "+c.why, status, out, 201)
	}
}

// Goal (I1): an operator who makes the serving Redis a replica of an earlier copy of itself and promotes it again, which rolls it
// back in place, under connections that stay, gets no reservation past a ceiling. Method: the day is spent behind the copy's
// back; calls begin at once after the promotion, as its first reading can be the one that sees the other id.
func TestRolledBackInPlace(t *testing.T) {
	k := contract()
	k.Ceilings.Day, k.SoftDay = dollar, false
	w := newWorld(t, one(k))
	w.pipeline()
	r := w.start()
	status, out := r.reserve("acme", "r1", 10)
	w.want("reserve", status, out, 201)
	earlier := testkit.RedisServer(t, part.Config{})
	at := &world{t: t, redis: earlier}
	w.redisCommand("CONFIG SET repl-diskless-sync-delay 0")
	at.redisCommand("CONFIG SET repl-diskless-sync-delay 0")
	at.redisCommand(fmt.Sprintf("REPLICAOF 127.0.0.1 %d", w.port()))
	w.eventually("the copy is made", func() error {
		if got := at.redisCommand("GET w:epoch"); got != "$4" {
			return fmt.Errorf("it says %q", got)
		}
		return nil
	})
	at.redisCommand("REPLICAOF NO ONE")
	w.eventually("it is ready with a copy behind it", func() error {
		status, out := r.reserve("acme", "r2", 90)
		if status != 201 && status != 200 {
			return fmt.Errorf("%d %v", status, out)
		}
		return nil
	})
	status, out = r.reserve("acme", "r3", 10)
	w.want("the day is spent", status, out, 429)
	w.redisCommand(fmt.Sprintf("REPLICAOF 127.0.0.1 %d", at.port()))
	w.eventually("it is a replica, and seen to be one", func() error {
		if why := r.whyUnready(); !strings.Contains(why, "read-only replica") {
			return fmt.Errorf("%q", why)
		}
		info, err := testkit.AskRedis(t.Context(), hostIn(w.redis.Address), "INFO replication")
		if err == nil && !strings.Contains(info, "master_link_status:up") {
			return fmt.Errorf("it has not all of the copy: %s", info)
		}
		return err
	})
	w.redisCommand("REPLICAOF NO ONE")
	for i := 0; w.epochNow().Epoch == 4711; i++ {
		if status, out := r.reserve("acme", fmt.Sprint("past", i), 10); status != 503 {
			t.Fatalf("after the promotion: %d %v", status, out)
		}
	}
}
