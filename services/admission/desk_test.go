//go:build integration

package admission

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/catalog"
	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/gen/weirv1"
	"github.com/weir-project/weir/pkg/identity"
	"github.com/weir-project/weir/pkg/obs"
)

// logical is a clock that only the test moves, in µs: the service's, Redis' and the world's.
type logical struct{ us atomic.Int64 }

func (c *logical) now() time.Time          { return time.UnixMicro(c.us.Load()).UTC() }
func (c *logical) advance(d time.Duration) { c.us.Add(d.Microseconds()) }

// desk is admission in the test's own hands: the real service on real Redis and Postgres, but nothing runs by itself.
// Time, the reaper, the journal reader and the window reader move when the test moves them, and what passes between
// the service and its stores can be cut or lose its answer.
type desk struct {
	*world
	process
	clock      *logical
	redisWire  *wire
	pgWire     *wire
	pg         *pgx.Conn // beside the wire
	scriptHook atomic.Pointer[func()]
}

// deskStart is a Tuesday, 23:58:20 UTC, the last of a month: midnight is near.
func deskStart() time.Time { return time.Date(2026, 6, 30, 23, 58, 20, 123_456_000, time.UTC) }

func newDesk(t *testing.T, contracts map[string]tenant.Contract) *desk {
	t.Helper()
	for id, k := range contracts { // the desk's own clock is near midnight of this zone
		k.Timezone = "UTC"
		contracts[id] = k
	}
	d := &desk{world: newWorld(t, contracts), clock: &logical{}}
	d.clock.us.Store(deskStart().UnixMicro())
	d.redisCommand("CONFIG SET appendfsync no") // what the disk does is not what these tests are about
	d.redisWire, d.pgWire = newWire(t, hostOf(t, d.redis.Address)), newWire(t, hostOf(t, d.postgres))
	var err error
	d.pg, err = pgx.Connect(t.Context(), d.postgres)
	d.must(err)
	t.Cleanup(func() { _ = d.pg.Close(context.Background()) })
	d.replace()
	t.Cleanup(func() { d.stop() })
	return d
}

func hostOf(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

// process is one replica at the desk.
type process struct {
	svc      *Service
	api      http.Handler
	registry *prometheus.Registry
	stop     func()
}

// replace ends the process and starts another one on the same stores.
func (d *desk) replace() {
	d.t.Helper()
	if d.stop != nil {
		d.stop()
	}
	d.process = d.another()
}

// another is a further process on the same stores, which knows what was published, and nothing of addTenant.
func (d *desk) another() process {
	d.t.Helper()
	cfg := d.config()
	cfg.Redis = strings.Replace(d.redis.Address, hostOf(d.t, d.redis.Address), d.redisWire.address, 1) + "?min_retry_backoff=1ms&max_retry_backoff=2ms&read_timeout=1m"
	cfg.Postgres = strings.Replace(cfg.Postgres, hostOf(d.t, cfg.Postgres), d.pgWire.address, 1)
	cfg.Deadline = 20 * time.Second // a busy machine is not one of the faults
	ctx, cancel := context.WithCancel(context.Background())
	p := process{registry: obs.NewRegistry()}
	svc, err := New(ctx, cfg, Deps{Log: slog.New(slog.DiscardHandler), Registry: p.registry, Now: d.clock.now, Random: rand.Reader,
		StoreClock: d.scriptTime})
	d.must(err)
	p.svc, p.api = svc, svc.routes()
	var followers sync.WaitGroup
	for _, f := range svc.catalogs.followers {
		followers.Go(func() { _ = f.Run(ctx) })
	}
	record := d.tokenKey.Record()
	value, err := proto.Marshal(record)
	d.must(err)
	d.must(svc.catalogs.signing.Apply(bus.NewRecord(topics.ControlKeys, record.GetKeyId(), []byte(record.GetKeyId()), value)))
	svc.syncKills(ctx)
	p.compareEpoch()
	d.eventually("catalogs", func() error {
		if p := svc.unready(); p != nil {
			return p
		}
		return nil
	})
	p.stop = func() {
		cancel()
		followers.Wait()
		_ = svc.listener.Close()
		_ = svc.close(context.Background())
	}
	return p
}

// compareEpoch does what the service's own loop does all the time: a jump of the clock makes the last reading old. A busy
// machine may need a second try.
func (p process) compareEpoch() {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		for p.svc.epochs.Read(context.Background()) {
		}
		if _, err := p.svc.epoch(); err == nil {
			return
		}
	}
}

// scriptTime is the time that scripts are given, and the one moment between the service and a script at which a test can
// step in.
func (d *desk) scriptTime() time.Time {
	if hook := d.scriptHook.Swap(nil); hook != nil {
		(*hook)()
	}
	return d.clock.now()
}

// beforeScript runs f when the next script that reads the clock is about to be sent. Reading a hold is none of those.
func (d *desk) beforeScript(f func()) { d.scriptHook.Store(&f) }

// heal takes every fault away.
func (d *desk) heal() {
	d.scriptHook.Store(nil)
	d.redisWire.set(through)
	d.pgWire.set(through)
}

// addTenant makes a tenant and a key of its own known without a round trip over Kafka, to this process and others.
func (d *desk) addTenant(id string, k tenant.Contract, others ...process) {
	d.t.Helper()
	contract, err := catalog.EncodeTenant(tenant.History{ID: id, Versions: []tenant.Contract{k}})
	d.must(err)
	key, err := identity.NewAPIKey(rand.Reader)
	d.must(err)
	stored, err := proto.Marshal(&weirv1.ApiKey{KeyId: key.ID, SecretHash: key.Hash, TenantIds: []string{id}})
	d.must(err)
	for _, p := range append(others, d.process) {
		d.must(p.svc.catalogs.tenants.Apply(bus.NewRecord(topics.CatalogTenants, id, []byte(id), contract)))
		d.must(p.svc.catalogs.apiKeys.Apply(bus.NewRecord(topics.CatalogApikeys, key.ID, []byte(key.ID), stored)))
	}
	d.keys[id] = key.Text
}

// call is one request for a tenant.
func (d *desk) call(who, method, path string, body any) (int, object) {
	d.t.Helper()
	return d.process.call(d.world, who, method, path, body)
}

func (p process) call(d *world, who, method, path string, body any) (int, object) {
	d.t.Helper()
	var raw []byte
	if body != nil {
		var err error
		raw, err = json.Marshal(body)
		d.must(err)
	}
	req := httptest.NewRequest(method, path, bytes.NewReader(raw))
	req.Header.Set("Authorization", "Bearer "+d.keys[who])
	w := httptest.NewRecorder()
	p.api.ServeHTTP(w, req)
	out := object{}
	dec := json.NewDecoder(w.Body)
	dec.UseNumber()
	if err := dec.Decode(&out); err != nil {
		d.t.Fatalf("%s %s: %d %v", method, path, w.Code, err)
	}
	return w.Code, out
}

// What a wire does.
const (
	through   int32 = iota
	severed         // nothing arrives: the connection ends
	noAnswer        // everything arrives, and from the first script on no answer comes back
	noReceipt       // noAnswer from the transaction on that writes a reservation's end
)

// wire is a TCP connection's middle, for as many connections as are made through it.
type wire struct {
	address string
	mode    atomic.Int32
}

func newWire(t *testing.T, to string) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{address: l.Addr().String()}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to)
			if err != nil {
				_ = near.Close()
				continue
			}
			s := &strand{wire: w, near: near, far: far}
			go s.ask()
			go s.answer()
		}
	}()
	return w
}

func (w *wire) set(mode int32) { w.mode.Store(mode) }

// strand is one connection through a wire.
type strand struct {
	*wire
	near, far net.Conn
	deaf      atomic.Bool
}

func (s *strand) end() {
	_ = s.near.Close()
	_ = s.far.Close()
}

func (s *strand) ask() {
	defer s.end()
	buf := make([]byte, 64<<10)
	for {
		n, err := s.near.Read(buf)
		if err != nil {
			return
		}
		switch s.mode.Load() {
		case severed:
			return
		case noAnswer:
			if bytes.Contains(buf[:n], []byte("evalsha")) { // not before: a connection that has to be made first can be made
				s.deaf.Store(true)
			}
		case noReceipt:
			if bytes.Contains(buf[:n], []byte(`"provider":`)) { // what was called is in every row and event
				s.deaf.Store(true)
			}
		}
		if _, err := s.far.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (s *strand) answer() {
	defer s.end()
	buf := make([]byte, 64<<10)
	for {
		n, err := s.far.Read(buf)
		if err != nil || s.deaf.Load() {
			return // the server has done what it was asked to
		}
		if _, err := s.near.Write(buf[:n]); err != nil {
			return
		}
	}
}

// Goal: the desk's faults are what they say. Method: one reservation under each.
func TestDesk(t *testing.T) {
	d := newDesk(t, one(contract()))
	ask := func(id string) (int, object) {
		return d.call("acme", "POST", "/v1/reservations", object{"reservation_id": id, "provider": "openai", "model": "flat", "estimate": object{"max_output_tokens": 30}})
	}
	held := func(want string) {
		t.Helper()
		_, b := d.call("acme", "GET", "/v1/budget", nil)
		if got := figureOf(b, "day", "held_usd"); got != want {
			t.Errorf("held %s, want %s", got, want)
		}
	}
	for _, c := range []struct {
		mode   int32
		status int
		held   string
	}{{through, 201, "0.3"}, {severed, 503, "0.3"}, {noAnswer, 503, "0.6"}} {
		d.beforeScript(func() { d.redisWire.set(c.mode) })
		status, out := ask(fmt.Sprint("r", c.mode))
		d.heal()
		d.want(fmt.Sprint("mode ", c.mode), status, out, c.status)
		held(c.held)
	}
	settle := func(id string) (int, object) {
		return d.call("acme", "POST", "/v1/reservations/"+id+"/settle", object{"meters": object{"output_tokens": 10}})
	}
	d.pgWire.set(noReceipt)
	status, out := settle("r0")
	d.heal()
	d.want("the commit's answer is lost", status, out, 503)
	if n := len(d.outboxRows()); n != 1 {
		t.Errorf("%d events: it was committed all the same", n)
	}
	held("0.6")
	status, out = settle("r0")
	d.want("so it is sent again", status, out, 200, "cost_usd", "0.1")
}
