//go:build integration

package budgetstore

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/ladder"
	"github.com/weir-project/weir/pkg/domain/money"
)

// redisURL is one real redis-server for all tests of the package; each test uses tenants of its own.
var redisURL string

func TestMain(m *testing.M) {
	code, err := withRedis(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func withRedis(run func() int) (int, error) {
	dir, err := os.MkdirTemp("", "weir-budgetstore")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	url, stop, err := startRedis(dir)
	if err != nil {
		return 1, err
	}
	defer stop()
	redisURL = url
	return run(), nil
}

// startRedis runs a redis-server of its own on a free port until stop.
func startRedis(dir string, args ...string) (url string, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	port := l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		return "", nil, err
	}
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return "", nil, fmt.Errorf("these tests need redis-server: %w", err)
	}
	args = append([]string{"--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--save", "", "--dir", dir,
		"--logfile", filepath.Join(dir, "redis.log")}, args...)
	cmd := exec.Command(path, args...)
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		conn, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), time.Second)
		if err == nil {
			_, _ = fmt.Fprint(conn, "PING\r\n")
			answer := make([]byte, 5)
			_, err = conn.Read(answer)
			_ = conn.Close()
		}
		if err == nil {
			return fmt.Sprintf("redis://127.0.0.1:%d/0", port), stop, nil
		}
	}
	stop()
	return "", nil, errors.New("redis-server did not answer in 10 s")
}

// logical is a clock that only the test moves, in µs.
type logical struct{ us atomic.Int64 }

func (c *logical) now() time.Time          { return time.UnixMicro(c.us.Load()).UTC() }
func (c *logical) advance(d time.Duration) { c.us.Add(d.Microseconds()) }

// world is one tenant in the real Redis under a logical clock.
type world struct {
	t      testing.TB
	store  *Store
	clock  *logical
	tenant Tenant
	limits admit.Limits
	ids    int
}

const testEpoch = 4_000_000_000_000_007

// start is a Tuesday, 23:58:20 UTC, the last of a month: midnight is near.
func start() time.Time { return time.Date(2026, 6, 30, 23, 58, 20, 123_456_000, time.UTC) }

func newWorld(t testing.TB) *world {
	t.Helper()
	return newWorldAt(t, redisURL)
}

func newWorldAt(t testing.TB, url string) *world {
	t.Helper()
	w := &world{t: t, clock: &logical{}, tenant: Tenant{ID: fmt.Sprintf("%s-%d", safe(t.Name()), time.Now().UnixNano()), Epoch: testEpoch}}
	w.clock.us.Store(start().UnixMicro())
	store, err := Open(t.Context(), url, Options{ScriptClock: w.clock.now})
	w.must(err)
	t.Cleanup(func() { _ = store.Close() })
	w.store = store
	_, err = store.CreateTenant(t.Context(), w.tenant)
	w.must(err)
	w.must(store.MarkReady(t.Context(), w.tenant))
	w.limits = admit.Limits{Concurrency: 1000, Minute: admit.NoCeiling(), Day: admit.NoCeiling(), Month: admit.NoCeiling(), Ladder: ladder.Default()}
	return w
}

func safe(name string) string {
	b := []byte(name)
	for i, c := range b {
		if c == '/' {
			b[i] = '.'
		}
	}
	return string(b)
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) calendar() admit.Calendar { return admit.CalendarAt(w.clock.now(), time.UTC) }

// request is a reservation of a new id that asks for nano dollars.
func (w *world) request(nano money.Nano) Request {
	w.ids++
	id := fmt.Sprintf("r%d", w.ids)
	return Request{Tenant: w.tenant, ID: id, Fingerprint: admit.Content{Model: id}.Fingerprint(), Estimate: admit.Estimate{Nanos: nano},
		Limits: w.limits, Calendar: w.calendar(), Lease: time.Minute, Context: []byte("context of " + id)}
}

func (w *world) reserve(r Request) Reply {
	w.t.Helper()
	reply, err := w.store.Reserve(w.t.Context(), r)
	w.must(err)
	return reply
}

// admit reserves and expects a yes.
func (w *world) admit(r Request) Ref {
	w.t.Helper()
	reply := w.reserve(r)
	if reply.Verdict != Admitted {
		w.t.Fatalf("%s: verdict %d %+v, want admitted", r.ID, reply.Verdict, reply.Refusal)
	}
	return Ref{Tenant: w.tenant, ID: r.ID, ReservedAt: reply.Answer.ReservedAt}
}

// refused reserves and expects a no for the limit.
func (w *world) refused(r Request, code admit.Code, limit admit.Limit) admit.Refusal {
	w.t.Helper()
	reply := w.reserve(r)
	if reply.Verdict != Refused || reply.Refusal.Code != code || reply.Refusal.Limit != limit {
		w.t.Fatalf("%s: verdict %d %s %s, want %s %s", r.ID, reply.Verdict, reply.Refusal.Code, reply.Refusal.Limit, code, limit)
	}
	return reply.Refusal
}

func (w *world) budget() Budget {
	w.t.Helper()
	b, err := w.store.Budget(w.t.Context(), w.tenant, w.calendar())
	w.must(err)
	return b
}

const dollar = money.Nano(1_000_000_000)
