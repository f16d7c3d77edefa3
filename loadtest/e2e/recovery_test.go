//go:build integration

package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/weir-project/weir/loadtest/caller"
	"github.com/weir-project/weir/loadtest/rig"
	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/embedded/part"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/gen/weirv1"
	"github.com/weir-project/weir/pkg/testkit"
)

const lossTenants = `
tenants:
  - {id: roomy, limits: {concurrency: 50}, ceilings: {minute_usd: 500, day_usd: 500, month_usd: 500}, timezone: MIDDAY}
  - {id: tight, limits: {concurrency: 50}, ceilings: {minute_usd: 500, day_usd: 500, month_usd: 0.60}, timezone: MIDDAY}
`

// A lost Redis, while callers go on: emptied, once with the leader of the recovery killed in its midst, restarted without
// data, rolled back to an old snapshot, and failed over to a replica that lacks the last writes. Each time admission refuses, comes back by itself with exact counters, and at no
// instant is more settled and held than a ceiling allows.
func TestRecovery(t *testing.T) {
	t.Setenv("ADMISSION_MAX_LEASE", "2s")
	w := start(t, "--replicas", "admission=2")
	w.tenants(lossTenants, "roomy", "tight")
	l := w.load(map[string]int64{"roomy": 500e9, "tight": 600e6})
	defer l.stop()
	t.Run("planned restart", func(t *testing.T) { w.on(t).planned(l) })
	t.Run("its leader killed", func(t *testing.T) { w.on(t).survives(l, (*world).killLeader) })
	w.up() // the replica that was killed
	for round := range 3 {
		for _, loss := range []struct {
			name string
			lose func(*world, *load)
		}{{"emptied", func(w *world, _ *load) { w.flush() }}, {"no data", (*world).restartEmpty}, {"old snapshot", (*world).rollBack}} {
			t.Run(fmt.Sprintf("%s %d", loss.name, round+1), func(t *testing.T) { w.on(t).survives(l, loss.lose) })
		}
	}
	for round := range 3 { // last: the server that serves then is not one of the instance's
		t.Run(fmt.Sprintf("failover %d", round+1), func(sub *testing.T) {
			w.on(sub).survives(l, func(w *world, l *load) { w.failOver(l, testkit.RedisServer(t, part.Config{})) })
		})
	}
	t.Run("its own server again, far behind", func(t *testing.T) { w.on(t).survives(l, (*world).comeBack) })
	l.stop()
	w.mustAudit()
	if l.admitted.Load() < 200 || l.refused.Load() == 0 {
		t.Errorf("%d calls were admitted, and %d refused at the ceiling", l.admitted.Load(), l.refused.Load())
	}
}

// survives loses Redis under load, and wants admission back with counters that are exact at a quiet moment.
func (w *world) survives(l *load, lose func(*world, *load)) {
	before := w.mustEpoch()
	l.resume()
	l.some(w.t, 20)
	lose(w, l)
	begin := time.Now()
	await(w.t, "another epoch", func() bool { return w.epoch() > before })
	l.some(w.t, 20)
	w.t.Logf("admitting again after %s", time.Since(begin).Round(time.Millisecond))
	l.pause()
	begin = time.Now()
	for _, tenant := range []string{"roomy", "tight"} {
		w.exact(tenant)
	}
	w.t.Logf("exact after %s", time.Since(begin).Round(time.Millisecond))
	if got := w.mustEpoch(); got != before+1 {
		w.t.Errorf("epoch %d after %d: one loss, one recovery", got, before)
	}
	l.mustHold(w.t)
}

// planned restarts everything: nothing is lost, so nothing is recovered.
func (w *world) planned(l *load) {
	before := w.mustEpoch()
	l.resume()
	l.some(w.t, 20)
	l.pause()
	if err := w.Down(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	w.up()
	l.resume()
	l.some(w.t, 5)
	l.pause()
	w.exact("roomy")
	if got := w.mustEpoch(); got != before {
		w.t.Errorf("epoch %d, was %d: a planned restart was taken for a loss", got, before)
	}
}

func (w *world) flush() { command(w.t, w.redis(), "FLUSHALL") }

// killLeader ends the replica that leads the recovery with the hardest signal, in the middle of it: the other one must
// carry it out. Who they are is asked before, as a recovery lasts no longer than a few seconds.
func (w *world) killLeader(*load) {
	all := slices.DeleteFunc(w.status().Services, func(p rig.Process) bool { return !strings.HasPrefix(p.Name, "admission") })
	w.flush()
	var left []string
	await(w.t, "a leader to be killed", func() bool {
		leader := slices.IndexFunc(all, func(p rig.Process) bool { return recoveryStep(p.Address) > 0 })
		if leader < 0 {
			return false
		}
		w.t.Logf("killing %s", all[leader].Name)
		if err := all[leader].Signal(syscall.SIGKILL); err != nil {
			w.t.Fatal(err)
		}
		for i, p := range all {
			if i != leader {
				left = append(left, p.Address)
			}
		}
		return true
	})
	w.gates.list.Store(&left) // whoever takes the dead one's port is none of ours
}

// recoveryStep is the step of the recovery that a replica leads; 0 where it leads none, or does not say.
func recoveryStep(address string) (step int) {
	resp, err := connections.Get(address + "/metrics")
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if _, err := fmt.Sscanf(lines.Text(), "weir_recovery_step %d", &step); err == nil {
			return step
		}
	}
	return 0
}

func (w *world) redisData() string { return filepath.Join(w.Dir, "data", "redis") }

func (w *world) killRedis() {
	w.t.Helper()
	redis, err := w.status().Find("redis")
	if err != nil {
		w.t.Fatal(err)
	}
	if err := redis.Signal(syscall.SIGKILL); err != nil {
		w.t.Fatal(err)
	}
	w.redisEnds()
}

// redisEnds waits until the instance's Redis is gone, with its port.
func (w *world) redisEnds() {
	w.t.Helper()
	await(w.t, "redis ends", func() bool {
		redis, err := w.status().Find("redis")
		return err == nil && redis.PID == 0
	})
}

func (w *world) restartEmpty(*load) {
	w.killRedis()
	if err := os.RemoveAll(w.redisData()); err != nil {
		w.t.Fatal(err)
	}
	w.up()
}

// rollBack brings back what Redis had before some more calls were made.
func (w *world) rollBack(l *load) {
	old := filepath.Join(w.t.TempDir(), "old")
	if err := os.CopyFS(old, os.DirFS(w.redisData())); err != nil {
		w.t.Fatal(err)
	}
	l.some(w.t, 5)
	w.killRedis()
	if err := errors.Join(os.RemoveAll(w.redisData()), os.Rename(old, w.redisData())); err != nil {
		w.t.Fatal(err)
	}
	w.up()
}

// failOver promotes a replica that lacks the last writes, and puts it where the master was.
func (w *world) failOver(l *load, replica *part.Part) {
	before, master, at := w.mustEpoch(), w.redis(), hostOf(w.t, replica.Address)
	_, port, _ := strings.Cut(master, ":")
	command(w.t, master, "CONFIG SET repl-diskless-sync-delay 0")
	command(w.t, at, "REPLICAOF 127.0.0.1 "+port)
	await(w.t, "the replica is in sync", func() bool { return strings.Contains(ask(w.t, at, "INFO replication"), "master_link_status:up") })
	pause(w.t.Context(), time.Second) // a master that gets its first replica has lost nothing
	if w.mustEpoch() != before {
		w.t.Error("a replica was taken for a loss")
	}
	command(w.t, at, "REPLICAOF NO ONE")
	l.some(w.t, 3) // what is written now is lost
	ask(w.t, master, "SHUTDOWN NOSAVE")
	await(w.t, "the master ends", func() bool {
		conn, err := net.DialTimeout("tcp", master, time.Second)
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
	await(w.t, "the replica takes the port", func() bool { // a child of the master may hold it a moment longer
		return strings.HasPrefix(ask(w.t, at, "CONFIG SET port "+port), "+OK")
	})
}

// comeBack ends the promoted server and starts the instance's own, whose data are of an earlier epoch.
func (w *world) comeBack(*load) {
	at := w.redis()
	ask(w.t, at, "SHUTDOWN NOSAVE")
	await(w.t, "the promoted server leaves the port", func() bool {
		port, err := strconv.Atoi(at[strings.LastIndexByte(at, ':')+1:])
		if err == nil {
			_, err = part.Unused(port)
		}
		return err == nil
	})
	w.up()
}

// redis is host:port of the instance's Redis.
func (w *world) redis() string {
	w.t.Helper()
	return hostOf(w.t, w.Env("WEIR_REDIS"))
}

func hostOf(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

// ask sends one inline command and returns what Redis says at once.
func ask(t *testing.T, host, line string) string {
	t.Helper()
	conn, err := net.DialTimeout("tcp", host, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(conn, "%s\r\n", line); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 4096)
	n, _ := conn.Read(answer) // a server that shuts down answers nothing
	return string(answer[:n])
}

func command(t *testing.T, host, line string) {
	t.Helper()
	if got := ask(t, host, line); !strings.HasPrefix(got, "+OK") {
		t.Fatalf("%s: %q", line, got)
	}
}

// epoch is the one in Redis, 0 where there is none or Redis does not answer.
func (w *world) epoch() int64 {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	text, err := testkit.AskRedis(ctx, w.Env("WEIR_REDIS"), "GET w:epoch")
	if err != nil {
		return 0
	}
	epoch, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return epoch
}

// mustEpoch waits until Redis says which epoch it has.
func (w *world) mustEpoch() (epoch int64) {
	w.t.Helper()
	await(w.t, "an epoch", func() bool { epoch = w.epoch(); return epoch > 0 })
	return epoch
}

// exact waits until Redis' own and external amounts of the month are the aggregator's, to the nano-dollar, with nothing held.
func (w *world) exact(tenant string) {
	w.t.Helper()
	var why string
	defer func() {
		if w.t.Failed() {
			w.t.Log(why)
		}
	}()
	await(w.t, "exact counters of "+tenant, func() bool {
		b, err := w.client(tenant).Budget(w.t.Context())
		if err != nil {
			why = err.Error()
			return false
		}
		own, external := w.monthOf(tenant)
		month := b.Windows["month"]
		why = fmt.Sprintf("redis %+v, aggregator own %d and external %d", month, own, external)
		return month.HeldUSD == "0" && nanos(month.OwnUSD) == own && nanos(month.ExternalUSD) == external
	})
}

// monthOf is the aggregator's last word on a tenant's month.
func (w *world) monthOf(tenant string) (own, external int64) {
	w.t.Helper()
	conn, err := w.Kafka()
	if err != nil {
		w.t.Fatal(err)
	}
	zone, err := time.LoadLocation(w.zone)
	if err != nil {
		w.t.Fatal(err)
	}
	now := time.Now().In(zone)
	month := int64(now.Year()*100 + int(now.Month()))
	err = conn.ReadPartition(w.t.Context(), topics.BudgetWindows, bus.PartitionFor([]byte(tenant), topics.BudgetWindows.Partitions()), -1, -1, func(rec bus.Record) error {
		var m weirv1.WindowTotal
		if err := proto.Unmarshal(rec.Value, &m); err != nil {
			return err
		}
		if m.GetBaseEpoch() == 0 && m.GetTenantId() == tenant && m.GetScopeKind() == weirv1.ScopeKind_SCOPE_KIND_TENANT &&
			m.GetKind() == weirv1.WindowKind_WINDOW_KIND_MONTH && m.GetWindow() == month {
			own, external = m.GetOwnNanos(), m.GetExternalNanos()
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return own, external
}

// nanos reads decimal dollars exactly. External amounts may be below zero: a late settle takes back an expired hold.
func nanos(usd string) int64 {
	if positive, negative := strings.CutPrefix(usd, "-"); negative {
		return -nanos(positive)
	}
	whole, fraction, _ := strings.Cut(usd, ".")
	var n int64
	for _, c := range whole + (fraction + "000000000")[:9] {
		if c >= '0' && c <= '9' {
			n = n*10 + int64(c-'0')
		}
	}
	return n
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// load is callers that reserve, hold, extend and settle until they are stopped, and add up what they were admitted.
type load struct {
	w        *world
	ctx      context.Context
	done     sync.WaitGroup
	stop     func()
	gate     sync.RWMutex // a caller's round holds it for reading
	paused   bool
	admitted atomic.Int64
	refused  atomic.Int64 // because a ceiling was reached
	number   atomic.Int64

	mu      sync.Mutex
	ceiling map[string]int64
	// sure is, in nano-dollars, what is certainly settled or held: a hold from its answer until its settle is sent, and a
	// settled amount from its answer on.
	sure map[string]int64
	over []string
}

func (w *world) load(ceilings map[string]int64) *load {
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{w: w, ctx: ctx, ceiling: ceilings, sure: map[string]int64{}}
	l.stop = sync.OnceFunc(func() {
		cancel() // before they go on: a call that is broken off leaves a hold, which ends while the books are audited
		l.resume()
		l.done.Wait()
	})
	l.pause()
	for tenant := range ceilings {
		for i := range 4 {
			l.done.Go(func() { l.calls(tenant, i == 0) })
		}
	}
	return l
}

// pause returns when no call is under way; resume ends it. Each may be asked again, as a part that failed may have left it.
func (l *load) pause() {
	if !l.paused {
		l.gate.Lock()
	}
	l.paused = true
}

func (l *load) resume() {
	if l.paused {
		l.gate.Unlock()
	}
	l.paused = false
}

// some waits until so many more calls were admitted.
func (l *load) some(t *testing.T, n int64) {
	t.Helper()
	from := l.admitted.Load()
	await(t, "calls are admitted", func() bool { return l.admitted.Load() >= from+n })
}

func (l *load) add(tenant string, nanos int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sure[tenant] += nanos
	if l.sure[tenant] > l.ceiling[tenant] {
		l.over = append(l.over, fmt.Sprintf("%s: %d settled and held, %d allowed", tenant, l.sure[tenant], l.ceiling[tenant]))
	}
}

func (l *load) mustHold(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range l.over {
		t.Errorf("overspent (I1): %s", o)
	}
	l.over = nil
}

// calls is one caller: short calls, or long ones that show their receipts.
func (l *load) calls(tenant string, long bool) {
	for l.ctx.Err() == nil {
		l.gate.RLock()
		wait := l.call(tenant, long)
		l.gate.RUnlock()
		pause(l.ctx, wait)
	}
}

// call makes one call and says how long to wait before the next. 1000 tokens in and up to 700 out hold $0.0095; a cent less
// or so is settled.
func (l *load) call(tenant string, long bool) time.Duration {
	id := fmt.Sprintf("%s-%d", tenant, l.number.Add(1))
	const input, most = 1000, 700
	held := int64(input*2500 + most*10000)
	a, err := l.w.client(tenant).Reserve(l.ctx, caller.Reservation{ID: id, Provider: "openai", Model: "gpt-4o", AgentID: "load", Estimate: caller.Estimate(input, most)})
	var no *caller.Refusal
	switch {
	case errors.As(err, &no) && no.Code == "tenant_quota_exceeded":
		l.refused.Add(1)
		return 300 * time.Millisecond
	case err != nil:
		return 200 * time.Millisecond
	}
	l.add(tenant, held)
	l.admitted.Add(1)
	used := int64(50 + rand.N(most-50))
	pause(l.ctx, time.Duration(20+rand.N(80))*time.Millisecond)
	for range 8 {
		if !long {
			break
		}
		_, _ = l.w.client(tenant).Extend(l.ctx, id, a.Receipt) // where it fails, the next one may not
		pause(l.ctx, 300*time.Millisecond)
	}
	l.add(tenant, -held)
	s := caller.Chat(input, used)
	s.Receipt = a.Receipt
	for l.ctx.Err() == nil {
		if _, err = l.w.client(tenant).Settle(l.ctx, id, s); err == nil {
			l.add(tenant, input*2500+used*10000)
			break
		}
		if errors.As(err, &no) && no.RetryAfter == 0 {
			l.w.t.Errorf("settle of %s: %v", id, err)
			break
		}
		pause(l.ctx, 100*time.Millisecond)
	}
	return 50 * time.Millisecond
}
