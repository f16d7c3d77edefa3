//go:build integration

package admission

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/domain/recovery"
	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/domain/window"
	"github.com/weir-project/weir/pkg/embedded/part"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/gen/weirv1"
	"github.com/weir-project/weir/pkg/pgstore"
	"github.com/weir-project/weir/pkg/testkit"
)

// leasesEnd lets the time pass that the leases of a lost epoch may still run, in the row by which a recovery waits for them, once
// that has a Redis and all keepers have shown their receipts there. So leases can outlive a busy machine, and no test waits for
// their end.
func (w *world) leasesEnd() {
	w.t.Helper()
	for _, k := range w.keepers {
		if k.ctx.Err() == nil && k.keptIn.Load() != w.epochNow().Epoch {
			return
		}
	}
	c := w.config()
	w.exec(`UPDATE redis_epoch SET raised_at = raised_at - $1::interval, lost_active_at = lost_active_at - $1::interval
		WHERE state = 'recovering' AND masters <> '{}' AND raised_at > clock_timestamp() - $1::interval`, recovery.LeasesEnd(time.Time{}, c.MaxLease+c.Deadline).Sub(time.Time{}))
}

// newLossWorld has the whole pipeline behind admission, and a tenant besides acme that must come back as well.
func newLossWorld(t *testing.T) (*world, *replica) {
	t.Helper()
	w := newWorld(t, map[string]tenant.Contract{"acme": contract(), "other": contract()})
	w.pipeline()
	return w, w.start()
}

// port is the one that Redis has: a new one takes its place.
func (w *world) port() int {
	w.t.Helper()
	var n int
	if _, err := fmt.Sscanf(w.redis.Address, "redis://127.0.0.1:%d/0", &n); err != nil {
		w.t.Fatal(err)
	}
	return n
}

func (w *world) killRedis() {
	w.t.Helper()
	w.must(syscall.Kill(w.redis.PID, syscall.SIGKILL))
	w.must(w.redis.Stop(10 * time.Second))
}

// startRedis starts Redis again in a folder, where the old one was.
func (w *world) startRedis(dir string) {
	w.t.Helper()
	w.redis = testkit.RedisServer(w.t, part.Config{Dir: dir, Port: w.port()})
}

// losses are the ways in which Redis loses what it knew, all at once or what came last.
func losses() map[string]func(*world) (lose func()) {
	return map[string]func(*world) func(){
		"emptied":    func(w *world) func() { return func() { w.redisCommand("FLUSHALL") } },
		"one key":    func(w *world) func() { return func() { w.redisCommand("DEL w:{acme}:s") } },
		"no data":    func(w *world) func() { return func() { w.killRedis(); w.startRedis(w.t.TempDir()) } },
		"restarted":  func(w *world) func() { return func() { w.killRedis(); w.startRedis(w.redisDir) } },
		"rolledback": rolledBack,
		"failover":   failover,
	}
}

// rolledBack brings a snapshot of now back.
func rolledBack(w *world) func() {
	snapshot := w.t.TempDir()
	w.must(os.CopyFS(filepath.Join(snapshot, "appendonlydir"), os.DirFS(filepath.Join(w.redisDir, "appendonlydir"))))
	return func() { w.killRedis(); w.startRedis(snapshot) }
}

// failover promotes a replica that has what there is now, and nothing that comes after.
func failover(w *world) func() {
	replica := testkit.RedisServer(w.t, part.Config{})
	at := &world{t: w.t, redis: replica}
	w.redisCommand("CONFIG SET repl-diskless-sync-delay 0")
	at.redisCommand(fmt.Sprintf("REPLICAOF 127.0.0.1 %d", w.port()))
	w.eventually("the replica is in sync", func() error {
		if got := at.redisCommand("GET w:epoch"); got != "$4" {
			return fmt.Errorf("it says %q", got)
		}
		return nil
	})
	at.redisCommand("REPLICAOF NO ONE")
	return func() {
		port := w.port()
		w.killRedis()
		w.eventually("the replica takes the port", func() error { // a child of the killed master may hold it a moment longer
			if got := at.redisCommand(fmt.Sprintf("CONFIG SET port %d", port)); got != "+OK" {
				return errors.New(got)
			}
			return nil
		})
		replica.Address = w.redis.Address
		w.redis = replica
	}
}

// books is what the aggregator has for a tenant's day.
func (w *world) books(tenant string) (own, external int64) {
	w.t.Helper()
	day := w.today()
	err := w.conn.ReadPartition(w.t.Context(), topics.BudgetWindows, bus.PartitionFor([]byte(tenant), topics.BudgetWindows.Partitions()), -1, -1, func(rec bus.Record) error {
		m := new(weirv1.WindowTotal)
		if err := proto.Unmarshal(rec.Value, m); err != nil || m.GetBaseEpoch() != 0 {
			return err
		}
		if m.GetTenantId() == tenant && m.GetScopeKind() == weirv1.ScopeKind_SCOPE_KIND_TENANT && m.GetKind() == weirv1.WindowKind_WINDOW_KIND_DAY && m.GetWindow() == day {
			own, external = m.GetOwnNanos(), m.GetExternalNanos()
		}
		return nil
	})
	w.must(err)
	return own, external
}

func (w *world) today() int64 { return int64(window.KeysAt(w.now(), w.zone).Day) }

// exact waits for a quiet moment, at which Redis' own is the aggregator's own plus what is held, to the nano-dollar, and
// the external amounts are the same; then it says what is used.
func (w *world) exact(r *replica, tenant, own, held, external string) {
	w.t.Helper()
	w.eventually("own + held + external are exact for "+tenant, func() error {
		b := r.budget(tenant)
		haveOwn, haveHeld, haveExternal := figureOf(b, "day", "own_usd"), figureOf(b, "day", "held_usd"), figureOf(b, "day", "external_usd")
		if haveOwn != own || haveHeld != held || haveExternal != external {
			return fmt.Errorf("own %s, held %s, external %s; want %s, %s, %s", haveOwn, haveHeld, haveExternal, own, held, external)
		}
		booksOwn, booksExternal := w.books(tenant)
		if centsOf(own)-centsOf(held) != booksOwn/10_000_000 || centsOf(external) != booksExternal/10_000_000 {
			return fmt.Errorf("redis has own %s with %s held and external %s, the books own %d and external %d", own, held, external, booksOwn, booksExternal)
		}
		return nil
	})
}

func centsOf(usd string) int64 {
	n := decimalOf(usd)
	v, _ := n.Mul(decimalOf("100")).Int64()
	return v
}

// keeper is the owner of a hold who goes on extending it; keptIn is the last epoch in whose recovery that was taken.
type keeper struct {
	ctx    context.Context
	keptIn atomic.Int64
}

// keep extends a hold with its receipt until stop, as its owner would.
func (w *world) keep(r *replica, id string, receipt any) (stop func()) {
	ctx, cancel := context.WithCancel(w.t.Context())
	k := &keeper{ctx: ctx}
	w.keepers = append(w.keepers, k)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			recovering, yes := r.svc.epochs.Recovering(w.now())
			status, out, _ := r.do("POST", "/v1/reservations/"+id+"/extend", w.keys["acme"], object{"receipt": receipt})
			if status != 200 && status != 503 {
				w.t.Errorf("extend of %s: %d %v", id, status, out)
				return
			}
			if status == 200 && yes {
				k.keptIn.Store(recovering.Epoch)
			}
			pause(ctx, 200*time.Millisecond)
		}
	}()
	return sync.OnceFunc(func() { cancel(); <-done })
}

// recovers waits until a reservation is admitted again, once the leases of what was lost have ended, and fails if any call is
// refused in another way meanwhile.
func (w *world) recovers(r *replica, tenant, id string) {
	w.t.Helper()
	w.eventually("admission comes back by itself", func() error {
		w.leasesEnd()
		status, out := r.reserve(tenant, id, 1)
		switch {
		case status == 201, status == 200: // what was decided before may have been told too late
			return nil
		case status != 503 || !strings.HasPrefix(fmt.Sprint(out["code"]), "budget_store_"):
			w.t.Errorf("refused with %d %v", status, out)
		}
		return fmt.Errorf("%d %v", status, out)
	})
	status, out, _ := r.do("POST", "/v1/reservations/"+id+"/release", w.keys[tenant], nil)
	w.want("release", status, out, 200)
}

func (w *world) epochNow() pgstore.RedisEpoch {
	w.t.Helper()
	rows, err := pgstore.Open(w.t.Context(), w.postgres)
	w.must(err)
	defer rows.Close()
	row, _, err := rows.EpochRow(w.t.Context())
	w.must(err)
	return row
}

// Goal: whatever Redis loses, admission refuses until it knows again what was spent, and comes back by itself with exactly
// that: what was settled before, what never asked, what was settled, released and kept by receipts meanwhile. Method: a
// holder for each, and one that dies.
func TestRecovery(t *testing.T) {
	for name, prepare := range losses() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, r := newLossWorld(t)
			receipts := map[string]any{}
			reserve := func(id string, cents int) {
				status, out := r.reserve("acme", id, cents)
				w.want(id, status, out, 201)
				receipts[id] = out["receipt"]
			}
			reserve("before", 30)
			status, out := r.settle("acme", "before", object{"meters": object{"output_tokens": 20}})
			w.want("settle", status, out, 200)
			status, out, _ = r.do("POST", "/v1/events", w.keys["acme"], object{"specversion": "1.0", "id": "e1", "source": "agents/7", "type": "weir.usage.v1",
				"data": object{"provider": "openai", "model": "flat", "meters": object{"output_tokens": 10}}}, "Content-Type", "application/cloudevents+json")
			w.want("event", status, out, 204)
			w.exact(r, "acme", "0.2", "0", "0.1")
			status, out = r.reserve("other", "o1", 7)
			w.want("other", status, out, 201)
			status, out = r.settle("other", "o1", object{"meters": object{"output_tokens": 7}})
			w.want("settle", status, out, 200)
			w.exact(r, "other", "0.07", "0", "0")

			lose := prepare(w)
			for id, cents := range map[string]int{"kept": 30, "settled": 25, "released": 17} {
				reserve(id, cents)
			}
			reserve("late", 5)
			status, out = r.settle("acme", "late", object{"meters": object{"output_tokens": 5}})
			w.want("settle of what Redis forgets last", status, out, 200)
			stop := w.keep(r, "kept", receipts["kept"])
			defer stop()
			lose()
			w.eventually("refused", func() error {
				status, out, header := r.do("POST", "/v1/reservations", w.keys["acme"], object{"reservation_id": fmt.Sprint("n", time.Now().UnixNano()), "provider": "openai",
					"model": "flat", "estimate": object{"input_tokens": 0, "max_output_tokens": 0, "output_tokens": 1}, "lease_seconds": 1})
				if name != "one key" && status == 201 && w.epochNow().Lost == 0 {
					t.Errorf("admitted by a Redis that has lost something")
				}
				if status != 503 || out["code"] != "budget_store_recovering" || header.Get("Retry-After") == "" {
					return fmt.Errorf("%d %v %v", status, out, header)
				}
				return nil
			})
			w.eventually("settled by its receipt", func() error {
				status, out = r.settle("acme", "settled", object{"meters": object{"output_tokens": 24}, "receipt": receipts["settled"]})
				if status != 200 {
					return fmt.Errorf("%d %v", status, out)
				}
				return nil
			})
			w.eventually("released by its receipt", func() error {
				status, out, _ = r.do("POST", "/v1/reservations/released/release", w.keys["acme"], object{"receipt": receipts["released"]})
				if status != 200 {
					return fmt.Errorf("%d %v", status, out)
				}
				return nil
			})
			w.recovers(r, "acme", "after")
			w.recovers(r, "other", "after")
			// 20 + 24 + 5 settled, 30 still held, 10 that never asked.
			w.exact(r, "acme", "0.79", "0.3", "0.1")
			w.exact(r, "other", "0.07", "0", "0")
			status, out, _ = r.do("GET", "/v1/reservations/kept", w.keys["acme"], nil)
			w.want("the hold that was kept", status, out, 200, "state", "open")
			stop()
			status, out = r.settle("acme", "kept", object{"meters": object{"output_tokens": 11}, "receipt": receipts["kept"]})
			w.want("it is settled", status, out, 200)
			w.exact(r, "acme", "0.6", "0", "0.1")
			if row := w.epochNow(); row.Recovering || row.Epoch != row.Lost+1 || row.Epoch != 4712 {
				t.Errorf("epoch %+v", row)
			}
		})
	}
}

// Goal: a Redis that only did not answer for a while needs no recovery.
func TestPausedNeedsNoRecovery(t *testing.T) {
	t.Parallel()
	w := newWorld(t, one(contract()))
	r := w.start(func(c *Config) { c.Deadline = 2 * time.Second })
	r.admitted("acme", "r1", 30)
	w.must(syscall.Kill(w.redis.PID, syscall.SIGSTOP))
	w.eventually("refused", func() error {
		if status, out := r.reserve("acme", "r2", 1); status != 503 || out["code"] != "budget_store_unavailable" {
			return fmt.Errorf("%d %v", status, out)
		}
		return nil
	})
	pause(t.Context(), 3*time.Second)
	w.must(syscall.Kill(w.redis.PID, syscall.SIGCONT))
	w.recovers(r, "acme", "r3")
	if row := w.epochNow(); row.Lost != 0 {
		t.Errorf("a recovery: %+v", row)
	}
}

// Goal: whoever leads a recovery may die after any of its steps, and another replica ends it; the counters are exact.
func TestLeaderDies(t *testing.T) {
	t.Parallel()
	w := newWorld(t, one(contract()))
	w.pipeline()
	died := errors.New("died here")
	var killed sync.Map // step → once
	dying := func(c *Config) {
		c.afterStep = func(step recovery.Step) error {
			if _, before := killed.LoadOrStore(step, true); !before {
				return died
			}
			return nil
		}
	}
	r := w.start(dying)
	w.start(dying)
	status, out := r.reserve("acme", "r1", 30)
	w.want("reserve", status, out, 201)
	status, out = r.settle("acme", "r1", object{"meters": object{"output_tokens": 20}})
	w.want("settle", status, out, 200)
	status, kept := r.reserve("acme", "r2", 40)
	w.want("reserve", status, kept, 201)
	stop := w.keep(r, "r2", kept["receipt"])
	defer stop()
	w.redisCommand("FLUSHALL")
	w.eventually("recovering", func() error {
		if row := w.epochNow(); row.Lost == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	w.recovers(r, "acme", "after")
	w.exact(r, "acme", "0.6", "0.4", "0")
	for step := recovery.Wait; step < recovery.Done; step++ {
		if _, ok := killed.Load(step); !ok {
			t.Errorf("nobody died after %v", step)
		}
	}
	if row := w.epochNow(); row.Epoch != 4712 {
		t.Errorf("the death of a leader is no loss: %+v", row)
	}
}

// Goal: a second loss in the middle of a recovery begins another one, which ends well.
func TestLostAgain(t *testing.T) {
	for _, at := range []recovery.Step{recovery.Wait, recovery.Load, recovery.Limits} {
		t.Run(at.String(), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, one(contract()))
			w.pipeline()
			var once atomic.Bool
			r := w.start(func(c *Config) {
				c.afterStep = func(step recovery.Step) error {
					if step == at && once.CompareAndSwap(false, true) {
						w.redisCommand("FLUSHALL")
					}
					return nil
				}
			})
			status, out := r.reserve("acme", "r1", 30)
			w.want("reserve", status, out, 201)
			status, out = r.settle("acme", "r1", object{"meters": object{"output_tokens": 20}})
			w.want("settle", status, out, 200)
			status, kept := r.reserve("acme", "r2", 40)
			w.want("reserve", status, kept, 201)
			stop := w.keep(r, "r2", kept["receipt"])
			defer stop()
			w.redisCommand("FLUSHALL")
			w.eventually("the second recovery", func() error {
				w.leasesEnd()
				if row := w.epochNow(); row.Epoch != 4713 {
					return fmt.Errorf("%+v", row)
				}
				return nil
			})
			w.recovers(r, "acme", "after")
			w.exact(r, "acme", "0.6", "0.4", "0")
		})
	}
}

// Goal: a replica that is started while the counters are made anew refuses until they are there, and then serves.
func TestStartedInTheMiddle(t *testing.T) {
	t.Parallel()
	w, r := newLossWorld(t)
	status, out := r.reserve("acme", "r1", 30)
	w.want("reserve", status, out, 201)
	status, out = r.settle("acme", "r1", object{"meters": object{"output_tokens": 20}})
	w.want("settle", status, out, 200)
	w.redisCommand("FLUSHALL")
	w.eventually("recovering", func() error {
		if row := w.epochNow(); !row.Recovering {
			return errors.New("not yet")
		}
		return nil
	})
	r.stop() // and the one that saw it goes
	late := w.startUnready()
	w.eventually("it says what it waits for", func() error {
		status, out, _ := late.do("GET", "/readyz", "", nil)
		why, _ := out["not_ready"].(object)
		codes, _ := out["codes"].(object)
		if status != 503 || !strings.Contains(fmt.Sprint(why["epoch"]), "being made anew") || codes["epoch"] != "budget_store_recovering" {
			return fmt.Errorf("%d %v", status, out)
		}
		return nil
	})
	w.recovers(late, "acme", "after")
	w.exact(late, "acme", "0.2", "0", "0")
}

// Goal: executions keep their totals, limits and revocations through a loss; a revocation that comes in the middle counts.
func TestExecutionsRecover(t *testing.T) {
	t.Parallel()
	w, r := newLossWorld(t)
	tokens := map[string]any{}
	for _, root := range []string{"spent", "revoked", "late", "held"} {
		status, out, _ := r.do("POST", "/v1/executions", w.keys["acme"], object{"root_execution_id": root, "agent_id": "lead", "max_cost_usd": "0.5"})
		w.want(root, status, out, 201)
		tokens[root] = out["token"]
	}
	status, out := r.reserve("acme", "r1", 45, object{"execution_token": tokens["spent"]})
	w.want("reserve", status, out, 201)
	status, out = r.settle("acme", "r1", object{"meters": object{"output_tokens": 45}})
	w.want("settle", status, out, 200)
	status, held := r.reserve("acme", "r2", 30, object{"execution_token": tokens["held"]})
	w.want("reserve", status, held, 201)
	revoke := func(root string) {
		value, err := proto.Marshal(&weirv1.Revocation{TenantId: "acme", RootExecutionId: root, Reason: "admission", RevokedAt: timestamppb.Now()})
		w.must(err)
		w.publish(bus.NewRecord(topics.ExecutionsRevoked, "acme", []byte("acme/"+root), value))
	}
	revoke("revoked")
	stop := w.keep(r, "r2", held["receipt"])
	defer stop()
	w.redisCommand("FLUSHALL")
	w.eventually("recovering", func() error {
		if status, out := r.reserve("acme", "n", 1); out["code"] != "budget_store_recovering" {
			return fmt.Errorf("%d %v", status, out)
		}
		return nil
	})
	revoke("late")
	w.recovers(r, "acme", "after")
	for root, code := range map[string]string{"spent": "execution_budget_exceeded", "revoked": "execution_revoked", "late": "execution_revoked", "held": "execution_budget_exceeded"} {
		status, out := r.reserve("acme", "x-"+root, 25, object{"execution_token": tokens[root]})
		w.want(root, status, out, 403, "code", code)
	}
	status, out = r.reserve("acme", "fits", 20, object{"execution_token": tokens["held"]})
	w.want("what is left", status, out, 201)
}
