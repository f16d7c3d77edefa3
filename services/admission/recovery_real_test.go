//go:build integration

package admission

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/embedded/part"
	"github.com/weir-project/weir/pkg/testkit"
)

// spending is callers that reserve and settle a cent each; spent is how many cents have certainly been settled.
type spending struct {
	stop  func()
	spent atomic.Int64
}

// spend has callers go on until stopped. A settle that fails is repeated with the receipt.
func (w *world) spend(r *replica, tenant string) *spending {
	ctx, cancel := context.WithCancel(context.Background())
	s := new(spending)
	var callers sync.WaitGroup
	for n := range 2 {
		callers.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				id := fmt.Sprintf("%s-%d-%d", tenant, n, i)
				status, out := r.reserve(tenant, id, 1)
				for receipt := out["receipt"]; status == 201 || status == 503 && receipt != nil; {
					if status, _ = r.settle(tenant, id, object{"meters": object{"output_tokens": 1}, "receipt": receipt}); status == 200 {
						s.spent.Add(1)
					} else {
						pause(w.t.Context(), 50*time.Millisecond)
					}
				}
				pause(ctx, 20*time.Millisecond)
			}
		})
	}
	s.stop = sync.OnceFunc(func() { cancel(); callers.Wait() })
	w.t.Cleanup(s.stop)
	return s
}

// more waits until so many more cents are spent.
func (s *spending) more(w *world, n int64) {
	w.t.Helper()
	from := s.spent.Load()
	w.eventually("calls are admitted", func() error {
		if got := s.spent.Load(); got < from+n {
			return fmt.Errorf("%d cents, then %d", from, got)
		}
		return nil
	})
}

// exact waits until Redis and the books say what was spent.
func (s *spending) exact(w *world, r *replica, tenant string) {
	w.t.Helper()
	w.eventually("what "+tenant+" has spent is exact", func() error {
		b := r.budget(tenant)
		own, external := figureOf(b, "day", "own_usd"), figureOf(b, "day", "external_usd")
		booksOwn, booksExternal := w.books(tenant)
		if got := centsOf(own) + centsOf(external); got != s.spent.Load() || booksOwn+booksExternal != got*10_000_000 {
			return fmt.Errorf("own %s and external %s, the books %d and %d; spent %d cents", own, external, booksOwn, booksExternal, s.spent.Load())
		}
		return nil
	})
}

// Goal: a failover by a real Sentinel, under load, is a loss that is recovered by itself, in the promoted server, exactly.
func TestSentinelFailsOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, one(contract()))
	w.pipeline()
	replica := testkit.RedisServer(t, part.Config{})
	bySentinel, look := testkit.RedisSentinel(t, w.redis, replica)
	r := w.start(func(c *Config) { c.Redis = bySentinel })
	s := w.spend(r, "acme")
	s.more(w, 20)
	before := w.epochNow()
	w.killRedis()
	look()
	w.redis = replica
	w.eventually("the replica is promoted and recovered in", func() error {
		w.leasesEnd()
		row := w.epochNow()
		if row.Epoch != before.Epoch+1 || row.Recovering {
			return fmt.Errorf("%+v", row)
		}
		return nil
	})
	s.more(w, 20)
	s.stop()
	s.exact(w, r, "acme")
	promoted, err := testkit.AskRedis(t.Context(), replica.Address, "INFO replication")
	w.must(err)
	if row := w.epochNow(); row.Epoch != before.Epoch+1 || len(row.ReplicationIDs) != 1 || !strings.Contains(promoted, "master_replid:"+row.ReplicationIDs[0]) {
		t.Errorf("before %+v, after %+v", before, row)
	}
}

// Goal: one node of a real Cluster that lost everything sends all tenants through a recovery, after which those of every
// node are exact.
func TestClusterNodeIsFlushed(t *testing.T) {
	t.Parallel()
	tenants := map[string]tenant.Contract{}
	for n := range 6 {
		tenants[fmt.Sprint("tenant-", n)] = contract()
	}
	w := newWorld(t, tenants)
	w.pipeline()
	address, nodes := testkit.RedisCluster(t, 3)
	address += "&read_timeout=1m"
	counters, err := budgetstore.Open(t.Context(), address, budgetstore.Options{})
	w.must(err)
	defer counters.Close()
	_, err = counters.InitEpoch(t.Context(), w.epochNow().Epoch)
	w.must(err)
	r := w.start(func(c *Config) { c.Redis = address })
	load := map[string]*spending{}
	for id := range tenants {
		load[id] = w.spend(r, id)
	}
	for _, s := range load {
		s.more(w, 3)
	}
	flushed := false
	for _, node := range nodes {
		if held, err := testkit.AskRedis(t.Context(), node.Address, "EXISTS w:{tenant-0}:s"); err == nil && held == "1" {
			_, err = testkit.AskRedis(t.Context(), node.Address, "FLUSHALL")
			w.must(err)
			flushed = true
		}
	}
	if !flushed {
		t.Fatal("no node has the tenant")
	}
	w.eventually("recovered", func() error {
		w.leasesEnd()
		if row := w.epochNow(); row.Epoch != 4712 || row.Recovering {
			return fmt.Errorf("%+v", row)
		}
		return nil
	})
	for _, s := range load {
		s.more(w, 3)
		s.stop()
	}
	for id, s := range load {
		s.exact(w, r, id)
	}
	if row := w.epochNow(); row.Epoch != 4712 || len(row.ReplicationIDs) != len(nodes) {
		t.Errorf("more than one recovery, or not in all nodes: %+v", row)
	}
}
