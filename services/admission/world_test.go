//go:build integration

package admission

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/catalog"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/pricing"
	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/domain/usage"
	"github.com/weir-project/weir/pkg/embedded/part"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/gen/weirv1"
	"github.com/weir-project/weir/pkg/identity"
	"github.com/weir-project/weir/pkg/obs"
	"github.com/weir-project/weir/pkg/pgstore"
	"github.com/weir-project/weir/pkg/testkit"
)

// patience bounds every wait for a condition: generous, because the machine may be busy, or stand still for a while.
const patience = 2 * time.Minute

// world is everything admission stands on, real, and the credentials to ask it.
type world struct {
	t        *testing.T
	kafka    string
	postgres string
	redis    *part.Part
	redisDir string
	secret   identity.Secret
	tokenKey identity.TokenKey
	conn     *bus.Conn
	producer *bus.Producer
	keys     map[string]string // tenant → API key
	now      func() time.Time  // the replicas' clock
	// storeClock is the clock of the store's scripts; nil: Redis' own.
	storeClock func() time.Time
	zone       *time.Location // of tenants that name none
	keepers    []*keeper
}

const dollar money.Nano = 1_000_000_000

// contract is roomy; tests narrow what they are about.
func contract() tenant.Contract {
	return tenant.Contract{
		EffectiveFrom: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), PublishedAt: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), Plan: "test",
		Limits: tenant.Limits{Concurrency: 1000}, Ceilings: tenant.Ceilings{Minute: 100 * dollar, Day: 1000 * dollar, Month: 10_000 * dollar},
		Count: tenant.CountRaw, Overrun: percent("10"), Month: tenant.MonthCalendar, Ladder: tenant.DefaultLadder(),
	}
}

func percent(s string) money.Percent {
	p, _ := money.ParsePercent(s)
	return p
}

func newWorld(t *testing.T, contracts map[string]tenant.Contract) *world {
	t.Helper()
	return newWorldOn(t, testkit.Kafka(t), contracts)
}

// newWorldOn has a Kafka that the test may end.
func newWorldOn(t *testing.T, kafka string, contracts map[string]tenant.Contract) *world {
	t.Helper()
	dir := t.TempDir()
	w := &world{t: t, kafka: kafka, postgres: testkit.MigratedPostgres(t), redis: testkit.RedisServer(t, part.Config{Dir: dir}), redisDir: dir, keys: map[string]string{}, now: time.Now, zone: noon(time.Now())}
	var err error
	w.secret, err = identity.NewSecret([]byte(strings.Repeat("s", 32)))
	w.must(err)
	w.tokenKey, err = identity.NewTokenKey(rand.Reader)
	w.must(err)
	address, err := bus.ParseAddress(w.kafka)
	w.must(err)
	w.conn, err = bus.Connect(bus.Options{Address: address, ClientID: "test", Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), Now: time.Now})
	w.must(err)
	admin, err := w.conn.Admin()
	w.must(err)
	defer admin.Close()
	w.must(admin.EnsureTopics(t.Context(), topics.All, 1))
	w.producer, err = w.conn.Producer(bus.ProducerConfig{}, topics.All...)
	w.must(err)
	t.Cleanup(func() { w.producer.Close(context.Background()) })
	w.initStores()
	w.publishPrices()
	for id, k := range contracts {
		w.publishTenant(id, k)
	}
	return w
}

// noon is a zone in which it is between twelve and one o'clock: no day and no month turns in the midst of a test.
func noon(now time.Time) *time.Location {
	name := "Etc/GMT"
	if east := 12 - now.UTC().Hour(); east != 0 {
		name = fmt.Sprintf("Etc/GMT%+d", -east) // POSIX counts to the west
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		panic(err) // each of them is in Go's own data
	}
	return loc
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) initStores() {
	rows, err := pgstore.Open(w.t.Context(), w.postgres)
	w.must(err)
	defer rows.Close()
	epoch, err := rows.InitEpoch(w.t.Context(), 4711, budgetstore.Layout)
	w.must(err)
	counters, err := budgetstore.Open(w.t.Context(), w.redisURL(), budgetstore.Options{})
	w.must(err)
	defer counters.Close()
	_, err = counters.InitEpoch(w.t.Context(), epoch)
	w.must(err)
}

// publishPrices: gpt-4o at its list price, and "flat": one cent per output token, so that dollars are easy to count.
func (w *world) publishPrices() {
	for _, p := range []struct {
		model, in, out string
		max            int64
	}{{"gpt-4o", "0.0000025", "0.00001", 16384}, {"flat", "0.01", "0.01", 0}} {
		v, err := pricing.Version{Provider: "openai", Model: p.model, Mode: "chat", Currency: "USD", EffectiveFrom: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC),
			PublishedAt: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), Source: "test", MaxOutputTokens: p.max,
			Rates: []pricing.Rate{{Meter: usage.Input, USDPerUnit: decimalOf(p.in)}, {Meter: usage.Output, USDPerUnit: decimalOf(p.out)}}}.Seal()
		w.must(err)
		h := pricing.History{Provider: "openai", Model: p.model, Versions: []pricing.Version{v}}
		value, err := catalog.EncodePrices(h)
		w.must(err)
		w.publish(bus.NewRecord(topics.CatalogPrices, catalog.PriceKey(h), []byte(catalog.PriceKey(h)), value))
	}
}

func decimalOf(s string) money.Decimal {
	d, _ := money.ParseDecimal(s)
	return d
}

func (w *world) publish(records ...bus.Record) {
	w.t.Helper()
	w.must(w.producer.Produce(w.t.Context(), records...))
}

func (w *world) publishTenant(id string, k tenant.Contract) {
	w.t.Helper()
	if k.Timezone == "" {
		k.Timezone = w.zone.String()
	}
	w.must(k.Validate())
	value, err := catalog.EncodeTenant(tenant.History{ID: id, Versions: []tenant.Contract{k}})
	w.must(err)
	w.publish(bus.NewRecord(topics.CatalogTenants, id, []byte(id), value))
	w.keys[id] = w.publishKey(id)
}

func (w *world) publishKey(tenants ...string) string {
	w.t.Helper()
	key, err := identity.NewAPIKey(rand.Reader)
	w.must(err)
	value, err := proto.Marshal(&weirv1.ApiKey{KeyId: key.ID, SecretHash: key.Hash, TenantIds: tenants})
	w.must(err)
	w.publish(bus.NewRecord(topics.CatalogApikeys, key.ID, []byte(key.ID), value))
	return key.Text
}

// replica is one running admission.
type replica struct {
	w    *world
	svc  *Service
	url  string
	stop func()
}

// redisURL has a late answer be a late answer, and no second try.
func (w *world) redisURL() string { return w.redis.Address + "?read_timeout=1m" }

func (w *world) config() Config {
	address, err := bus.ParseAddress(w.kafka)
	w.must(err)
	return Config{Kafka: address, Redis: w.redisURL(), Postgres: w.postgres, HTTP: "127.0.0.1:0", Secret: w.secret, TokenKey: w.tokenKey,
		MaxLease: 2 * time.Minute, Deadline: 10 * time.Second, ReapInterval: 50 * time.Millisecond, TokenTTL: time.Hour, RememberHolds: 65536, Retention: 24 * time.Hour}
}

// start runs a replica and waits until it is ready.
func (w *world) start(change ...func(*Config)) *replica {
	w.t.Helper()
	cfg := w.config()
	for _, c := range change {
		c(&cfg)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s, err := New(ctx, cfg, Deps{Log: slog.New(slog.NewTextHandler(newTestWriter(w.t), &slog.HandlerOptions{Level: slog.LevelWarn})), Registry: obs.NewRegistry(), Now: w.now,
		Random: rand.Reader, StoreClock: w.storeClock})
	w.must(err)
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	var stopped atomic.Bool
	r := &replica{w: w, svc: s, url: "http://" + s.Address()}
	r.stop = func() {
		if !stopped.CompareAndSwap(false, true) {
			return
		}
		cancel()
		if err := <-ended; err != nil {
			w.t.Errorf("admission stopped: %v", err)
		}
	}
	w.t.Cleanup(r.stop)
	w.eventually("ready", func() error {
		status, body, _ := r.do("GET", "/readyz", "", nil)
		if status != http.StatusOK {
			if codes, _ := body["codes"].(object); codes["epoch"] == "budget_store_recovering" {
				w.leasesEnd()
			}
			return fmt.Errorf("%d %v", status, body)
		}
		return nil
	})
	return r
}

// testWriter is the test's log as long as the test runs: what is written later, by a client that closes behind its back, is
// left out, as it would end all tests.
type testWriter struct {
	mu   sync.Mutex
	t    *testing.T
	over bool
}

// newTestWriter is to be made before what writes to it: it ends after that.
func newTestWriter(t *testing.T) *testWriter {
	w := &testWriter{t: t}
	t.Cleanup(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.over = true
	})
	return w
}

func (w *testWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.over {
		w.t.Log(strings.TrimSpace(string(p)))
	}
	return len(p), nil
}

// eventually waits for a condition, asking ever more slowly.
func (w *world) eventually(what string, ok func() error) {
	w.t.Helper()
	deadline, wait := time.After(patience), 5*time.Millisecond
	for {
		err := ok()
		if err == nil {
			return
		}
		select {
		case <-deadline:
			w.t.Fatalf("%s: %v", what, err)
		case <-time.After(wait):
			wait = min(2*wait, 200*time.Millisecond)
		}
	}
}

// within fails unless one of some tries took less than a bound: what is slow each time is slow, what was slow once may have
// been the machine. A try says how long it took.
func (w *world) within(what string, bound time.Duration, try func(n int) time.Duration) {
	w.t.Helper()
	const tries = 10
	for n := range tries {
		took := try(n)
		if took < bound {
			return
		}
		w.t.Logf("%s: try %d took %s", what, n, took)
	}
	w.t.Errorf("%s: none of %d tries took less than %s", what, tries, bound)
}

// movable gives replicas and scripts one clock that the test can move, from now on; later moves it.
func (w *world) movable() (later func(time.Duration)) {
	var ahead atomic.Int64
	w.now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	w.storeClock = w.now
	return func(by time.Duration) { ahead.Add(int64(by)) }
}

type object = map[string]any

// metric is the value of a counter or a gauge, of the series whose labels have these values; 0 where there is none.
func (r *replica) metric(name string, labels ...string) float64 {
	r.w.t.Helper()
	families, err := r.svc.deps.Registry.Gather()
	r.w.must(err)
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			var values []string
			for _, l := range m.GetLabel() {
				values = append(values, l.GetValue())
			}
			if slices.Equal(values, labels) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return 0
}

// admitted reserves until the answer is a yes, whatever answers were late.
func (r *replica) admitted(tenant, id string, cents int) (out object) {
	r.w.t.Helper()
	r.w.eventually(id+" is admitted", func() error {
		var status int
		if status, out = r.reserve(tenant, id, cents); status != 201 && status != 200 {
			return fmt.Errorf("%d %v", status, out)
		}
		return nil
	})
	return out
}

// settled settles until the answer is a yes.
func (r *replica) settled(tenant, id string, body object) (out object) {
	r.w.t.Helper()
	r.w.eventually(id+" is settled", func() error {
		var status int
		if status, out = r.settle(tenant, id, body); status != 200 {
			return fmt.Errorf("%d %v", status, out)
		}
		return nil
	})
	return out
}

// do sends one request; body nil sends none.
func (r *replica) do(method, path, key string, body any, headers ...string) (int, object, http.Header) {
	r.w.t.Helper()
	var reader io.Reader
	if body != nil {
		raw, ok := body.(string)
		if !ok {
			encoded, err := json.Marshal(body)
			r.w.must(err)
			raw = string(encoded)
		}
		reader = strings.NewReader(raw)
	}
	req, err := http.NewRequest(method, r.url+path, reader)
	r.w.must(err)
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, object{"error": err.Error()}, nil
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	r.w.must(err)
	out := object{}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&out); err != nil {
		out["raw"] = string(raw)
	}
	return resp.StatusCode, out, resp.Header
}

// reserve asks for cents at the flat model: one output token is one cent.
func (r *replica) reserve(tenant, id string, cents int, more ...object) (int, object) {
	r.w.t.Helper()
	body := object{"reservation_id": id, "provider": "openai", "model": "flat", "estimate": object{"input_tokens": 0, "max_output_tokens": cents}}
	for _, m := range more {
		for k, v := range m {
			body[k] = v
		}
	}
	status, out, _ := r.do("POST", "/v1/reservations", r.w.keys[tenant], body)
	return status, out
}

func (r *replica) settle(tenant, id string, body object) (int, object) {
	r.w.t.Helper()
	status, out, _ := r.do("POST", "/v1/reservations/"+id+"/settle", r.w.keys[tenant], body)
	return status, out
}

func (r *replica) budget(tenant string) object {
	r.w.t.Helper()
	status, out, _ := r.do("GET", "/v1/budget", r.w.keys[tenant], nil)
	if status != http.StatusOK {
		r.w.t.Fatalf("budget: %d %v", status, out)
	}
	return out
}

// figureOf is one figure of the budget, e.g. figureOf(b, "day", "held_usd").
func figureOf(b object, name, figure string) string {
	line, _ := b["windows"].(object)[name].(object)
	return fmt.Sprint(line[figure])
}

// want fails unless status and the given members are as stated.
func (w *world) want(what string, status int, out object, wantStatus int, members ...string) {
	w.t.Helper()
	ok := status == wantStatus
	for i := 0; i+1 < len(members); i += 2 {
		ok = ok && fmt.Sprint(out[members[i]]) == members[i+1]
	}
	if !ok {
		w.t.Fatalf("%s: %d %v; want %d %v", what, status, out, wantStatus, members)
	}
}

// redisCommand sends one inline command, outside of any client library.
func (w *world) redisCommand(line string) string {
	w.t.Helper()
	u, err := url.Parse(w.redis.Address)
	w.must(err)
	c, err := net.DialTimeout("tcp", u.Host, patience)
	w.must(err)
	defer c.Close()
	w.must(c.SetDeadline(time.Now().Add(patience)))
	_, err = fmt.Fprintf(c, "%s\r\n", line)
	w.must(err)
	reply, err := bufio.NewReader(c).ReadString('\n')
	w.must(err)
	return strings.TrimSpace(reply)
}

// exec changes what is in Postgres.
func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	pg, err := pgx.Connect(w.t.Context(), w.postgres)
	w.must(err)
	_, err = pg.Exec(w.t.Context(), sql, args...)
	w.must(errors.Join(err, pg.Close(context.WithoutCancel(w.t.Context()))))
}

// count asks Postgres for a number.
func (w *world) count(sql string) (n int) {
	w.t.Helper()
	pg, err := pgx.Connect(w.t.Context(), w.postgres)
	w.must(err)
	err = pg.QueryRow(w.t.Context(), sql).Scan(&n)
	w.must(errors.Join(err, pg.Close(context.WithoutCancel(w.t.Context()))))
	return n
}

type outboxRow struct {
	id, kind, key string
	payload       []byte
	headers       map[string]string
}

// outboxRows are the events that were committed, in order.
func (w *world) outboxRows() []outboxRow {
	w.t.Helper()
	ctx := context.Background()
	pg, err := pgx.Connect(ctx, w.postgres)
	w.must(err)
	defer pg.Close(ctx)
	rows, err := pg.Query(ctx, `SELECT id, type, aggregateid, payload,
		coalesce(headers, '{}') || jsonb_strip_nulls(jsonb_build_object('content-type', content_type, 'weir-signature', signature)) FROM outbox ORDER BY seq`)
	w.must(err)
	defer rows.Close()
	var out []outboxRow
	for rows.Next() {
		var r outboxRow
		w.must(rows.Scan(&r.id, &r.kind, &r.key, &r.payload, &r.headers))
		out = append(out, r)
	}
	w.must(rows.Err())
	return out
}

// startUnready runs a replica without waiting for it.
func (w *world) startUnready(change ...func(*Config)) *replica {
	w.t.Helper()
	cfg := w.config()
	for _, c := range change {
		c(&cfg)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s, err := New(ctx, cfg, Deps{Log: slog.New(slog.DiscardHandler), Registry: obs.NewRegistry(), Now: w.now, Random: rand.Reader, StoreClock: w.storeClock})
	w.must(err)
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	w.t.Cleanup(func() { cancel(); <-ended })
	return &replica{w: w, svc: s, url: "http://" + s.Address()}
}
