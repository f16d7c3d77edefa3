//go:build integration

package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/proto"

	"github.com/weir-project/weir/pkg/audit"
	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/gen/weirv1"
	"github.com/weir-project/weir/pkg/instance"
	"github.com/weir-project/weir/pkg/testkit"
	"github.com/weir-project/weir/pkg/usageevent"
)

// stage is a running instance with traffic in its books, and the ways to spoil its stores.
type stage struct {
	*place
	state instance.State
	log   *bus.Conn
	redis *redis.Client
}

// TestAuditFindsWhatIsSpoiled deletes, doubles and alters by one digit a ledger row, a window and a Redis counter. Each
// gives exit 1 and is named; between them all is undone and the audit is ok.
func TestAuditFindsWhatIsSpoiled(t *testing.T) {
	root := here(t)
	longLease(t)
	p := newInstance(t)
	p.must("up")
	if a := p.run("audit"); a.code != 1 || !strings.Contains(a.out, "an empty log") {
		t.Errorf("audit of an empty log: %+v", a)
	}
	s := newStage(t, p)
	s.traffic(root)
	s.ok("before")
	s.questions()
	id := strings.TrimSpace(s.query("SELECT id FROM agent_cost_ledger WHERE reservation_id = 'r1' AND entry_kind = 'USAGE'"))
	s.ledger(id)
	s.windowTable()
	s.windowTopic()
	s.counters()
	s.ok("at the end")
}

// longLease keeps holds open, and a recovery going on, for longer than any test takes.
func longLease(t *testing.T) {
	t.Helper()
	t.Setenv("ADMISSION_MAX_LEASE", "2h")
}

func newStage(t *testing.T, p *place) *stage {
	t.Helper()
	state, err := instance.Dir(p.dir).Load()
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { part, _ := state.Part(name); return part.Address }
	address, err := bus.ParseAddress(at("kafka"))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := bus.Connect(bus.Options{Address: address, ClientID: "test", Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	options, err := redis.ParseURL(at("redis"))
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	return &stage{p, state, conn, client}
}

// traffic: settled reservations of an execution, an open hold, usage straight from Kafka (also twice, and of a tenant
// that never reserved), and poison.
func (s *stage) traffic(root string) {
	s.t.Helper()
	key := s.fill(root)
	token := s.call("POST", "/v1/executions", key, `{"root_execution_id": "x1", "agent_id": "lead"}`).body["token"].(string)
	for i := range 3 {
		id := fmt.Sprintf("r%d", i)
		s.t.Logf("reserve %s", id)
		r := s.call("POST", "/v1/reservations", key, `{"reservation_id": "`+id+`", "provider": "openai", "model": "gpt-4o",
			"estimate": {"input_tokens": 1000, "max_output_tokens": 20}, "execution_token": "`+token+`"}`)
		if r.status != 201 {
			s.t.Fatalf("reserve: %d %s", r.status, r.text)
		}
		if i == 2 {
			continue // stays open
		}
		if r := s.call("POST", "/v1/reservations/"+id+"/settle", key, `{"api": "chat.completions", "usage": {"prompt_tokens": 1000, "completion_tokens": 10}}`); r.status != 200 {
			s.t.Fatalf("settle: %d %s", r.status, r.text)
		}
	}
	if r := s.call("POST", "/v1/reservations", key, `{"reservation_id": "unused", "provider": "openai", "model": "gpt-4o",
		"estimate": {"input_tokens": 1000, "max_output_tokens": 20}}`); r.status != 201 {
		s.t.Fatalf("reserve: %d %s", r.status, r.text)
	}
	if r := s.call("POST", "/v1/reservations/unused/release", key, ""); r.status != 200 {
		s.t.Fatalf("release: %d %s", r.status, r.text)
	}
	s.family()
	event := func(tenant, id string) bus.Record {
		q := money.NewDecimal(1000)
		ev := usageevent.Event{ID: id, Source: "test", Type: usageevent.TypeUsage, Subject: tenant, Time: time.Now().UTC(), Data: usageevent.Data{
			Provider: "openai", Model: "gpt-4o", RootExecutionID: "x1", AgentID: "scraper", ParentAgentID: "lead", Meters: map[string]money.Decimal{"input_tokens": q, "output_tokens": q},
		}}
		return bus.NewRecord(topics.UsageEvents, tenant, []byte(tenant), usageevent.Encode(ev))
	}
	once := event("acme", "k1")
	produce(s.t, s.log, once, once, event("acme", "k2"), event("beta", "k1"), bus.NewRecord(topics.UsageEvents, "acme", []byte("acme"), []byte("{")))
}

// family: an agent that spends $0.0026, started by one that was given a limit and spends nothing.
func (s *stage) family() {
	s.t.Helper()
	key := decodeJSON[map[string]any](s.t, s.must("keys", "create", "--tenant", "beta", "--json"))["key"].(string)
	token := ""
	for _, body := range []string{`"root_execution_id": "x2", "agent_id": "lead", "max_cost_usd": "5"`, `"agent_id": "middle", "max_cost_usd": "0.5"`, `"agent_id": "worker"`} {
		if token != "" {
			body += `, "parent_token": "` + token + `"`
		}
		token, _ = s.call("POST", "/v1/executions", key, "{"+body+"}").body["token"].(string)
	}
	r := s.call("POST", "/v1/reservations", key, `{"reservation_id": "w1", "provider": "openai", "model": "gpt-4o",
		"estimate": {"input_tokens": 1000, "max_output_tokens": 20}, "execution_token": "`+token+`"}`)
	if r.status != 201 {
		s.t.Fatalf("reserve: %d %s", r.status, r.text)
	}
	if r := s.call("POST", "/v1/reservations/w1/settle", key, `{"api": "chat.completions", "usage": {"prompt_tokens": 1000, "completion_tokens": 10}}`); r.status != 200 {
		s.t.Fatalf("settle: %d %s", r.status, r.text)
	}
}

// questions asks bill, find and tree about the traffic: 2 x $0.0026 settled, 2 x $0.0125 from Kafka.
func (s *stage) questions() {
	s.t.Helper()
	for _, q := range []struct {
		args string
		code int
		want []string
	}{
		{"bill --tenant acme --json --month " + s.month, 0, []string{`"raw_cost_usd": "0.0302"`, `"billed_cost_usd": "0.033975"`, `"calls": 4`, `"unpriced": 0`, `"lag": 0`, `"as_of": "20`}},
		{"bill --tenant acme --by agent --month " + s.month, 0, []string{"scraper", "0.025", "lead", "0.0052", "0 records not in the ledger yet"}},
		{"bill --tenant acme --by api_key --month " + s.month, 0, []string{"(none)", "0.025", "0.0052"}},
		{"bill --tenant nobody", 1, nil},
		{"find k1", 0, []string{"ledger", "acme", "beta", "$0.0125"}},
		{"find k1 --json", 0, []string{`"state": "ledger"`}},
		{"find unused", 0, []string{"released", "acme"}},
		{"find unused --json", 0, []string{`"state": "released"`, `"acme"`}},
		{"find never-sent", 1, []string{"not seen yet"}},
		{"tree x1 --tenant acme", 0, []string{"x1 of acme: $0.0302 in 4 calls", "lead: own $0.0052 in 2 calls, subtree $0.0302", "    scraper: own $0.025", "not known: agents and limits under which nothing was spent"}},
		{"tree x2", 0, []string{"x2 of beta: $0.0026 in 1 calls, limit $5", "  lead: own $0 in 0 calls, subtree $0.0026 (known", "    middle: own $0 in 0 calls, subtree $0.0026 (known",
			"      worker: own $0.0026 in 1 calls, subtree $0.0026; branch b_", ": $0.0026 of $0.5\n"}},
		{"tree x1", 2, nil}, // two tenants have one of that name
		{"tree x9", 1, nil},
		{"dlq list", 0, []string{"malformed"}},
	} {
		a := s.run(strings.Fields(q.args)...)
		if a.code != q.code {
			s.t.Errorf("%s: %+v", q.args, a)
		}
		for _, want := range q.want {
			if !strings.Contains(a.out, want) {
				s.t.Errorf("%s: no %q in %s%s", q.args, want, a.out, a.err)
			}
		}
	}
}

// ok wants a clean audit.
func (s *stage) ok(when string) {
	s.t.Helper()
	if a := s.audit(); a.code != 0 || !strings.HasSuffix(a.out, "audit: ok\n") {
		s.t.Fatalf("%s: %+v", when, a)
	}
}

// spoil does something, wants the audit to name it, undoes it and wants a clean audit.
func (s *stage) spoil(name string, do, undo func(), words ...string) {
	s.t.Helper()
	do()
	a := s.audit("--json")
	r := decodeJSON[audit.Report](s.t, a)
	found := false
	for _, d := range r.Differences {
		all := true
		for _, w := range words {
			all = all && strings.Contains(d.String(), w)
		}
		found = found || all
	}
	if a.code != 1 || r.OK || !found {
		s.t.Errorf("%s: exit %d; no difference with %v in %v", name, a.code, words, r.Differences)
	}
	undo()
	s.ok(name + ", undone")
}

// query runs one statement in ClickHouse as its administrator.
func (s *stage) query(sql string) string {
	s.t.Helper()
	part, _ := s.state.Part("clickhouse")
	out, err := testkit.QueryClickHouse(s.t.Context(), strings.TrimSuffix(part.Address, "/weir")+"/weir", sql)
	if err != nil {
		s.t.Fatalf("%s: %v", sql, err)
	}
	return out
}

// copied keeps a table's rows so that restore can put them back; deduplication must not take the rows for old ones.
func (s *stage) copied(table string) (restore func()) {
	s.t.Helper()
	s.query("DROP TABLE IF EXISTS saved")
	s.query("CREATE TABLE saved ENGINE = MergeTree ORDER BY tuple() AS SELECT * FROM " + table)
	return func() {
		s.query("TRUNCATE TABLE " + table)
		s.query("INSERT INTO " + table + " SETTINGS insert_deduplicate = 0 SELECT * FROM saved")
	}
}

func (s *stage) ledger(id string) {
	s.t.Helper()
	const table = "agent_cost_ledger"
	restore := s.copied(table)
	deleted := func() {
		s.query("ALTER TABLE " + table + " DELETE WHERE id = '" + id + "' SETTINGS mutations_sync = 2")
	}
	again := func(what string) func() {
		return func() {
			deleted()
			s.query("INSERT INTO " + table + " SETTINGS insert_deduplicate = 0 SELECT * " + what + " FROM saved WHERE id = '" + id + "'")
		}
	}
	s.spoil("a ledger row deleted", deleted, restore, "ledger", id, "0 times")
	s.spoil("a ledger row doubled", func() {
		again("")()
		s.query("INSERT INTO " + table + " SETTINGS insert_deduplicate = 0 SELECT * FROM saved WHERE id = '" + id + "'")
	},
		restore, "ledger", id, "2 times")
	for column, change := range map[string]string{
		"raw_cost_usd":  "raw_cost_usd + toDecimal128('0.000000000000000001', 18)",
		"input_tokens":  "input_tokens + 1",
		"agent_id":      "concat(agent_id, '1')",
		"recorded_at":   "recorded_at + INTERVAL 1 NANOSECOND",
		"meters":        "mapApply((k, v) -> (k, v + 1), meters)",
		"kafka_offset":  "kafka_offset + 1",
		"posted_period": "posted_period + 1",
	} {
		s.spoil("one digit of "+column, again("REPLACE("+change+" AS "+column+")"), restore, "ledger", id, column)
	}
}

func (s *stage) windowTable() {
	s.t.Helper()
	const table, where = "budget_windows", "tenant_id = 'acme' AND scope_kind = 'TENANT' AND kind = 'DAY'"
	restore := s.copied(table)
	deleted := func() { s.query("ALTER TABLE " + table + " DELETE WHERE " + where + " SETTINGS mutations_sync = 2") }
	replaced := func(change string) func() {
		return func() {
			deleted()
			s.query("INSERT INTO " + table + " SELECT * REPLACE(" + change + ") FROM saved WHERE " + where)
		}
	}
	s.spoil("a window deleted", deleted, restore, "windows table", "acme TENANT  DAY", "nothing")
	s.spoil("a window doubled", replaced("raw_cost_usd * 2 AS raw_cost_usd, own_nanos * 2 AS own_nanos"), restore, "windows table", "acme TENANT  DAY", "raw cost")
	s.spoil("one digit of a window", replaced("external_nanos + 1 AS external_nanos"), restore, "windows table", "acme TENANT  DAY", "external nano-dollars")
	s.spoil("another row of the same version", func() {
		s.query("INSERT INTO " + table + " SELECT * REPLACE(own_nanos + 1 AS own_nanos) FROM saved WHERE " + where + " ORDER BY version DESC LIMIT 1")
	}, restore, "windows table", "acme TENANT  DAY", "one content")
}

func (s *stage) windowTopic() {
	s.t.Helper()
	var last bus.Record
	total := new(weirv1.WindowTotal)
	for partition := range int32(topics.BudgetWindows.Partitions()) {
		err := s.log.ReadPartition(s.t.Context(), topics.BudgetWindows, partition, -1, -1, func(r bus.Record) error {
			m := new(weirv1.WindowTotal)
			if err := proto.Unmarshal(r.Value, m); err != nil {
				return err
			}
			if m.GetTenantId() == "acme" && m.GetScopeKind() == weirv1.ScopeKind_SCOPE_KIND_TENANT && m.GetKind() == weirv1.WindowKind_WINDOW_KIND_DAY && m.GetVersion() >= total.GetVersion() {
				last, total = r, m
			}
			return nil
		})
		if err != nil {
			s.t.Fatal(err)
		}
	}
	restoreTable := s.copied("budget_windows")
	publish := func(value []byte) {
		s.t.Helper()
		produce(s.t, s.log, bus.Record{Topic: topics.BudgetWindows, Partition: last.Partition, Key: last.Key, Value: value})
	}
	changed := func(change func(*weirv1.WindowTotal)) func() {
		return func() {
			m := proto.Clone(total).(*weirv1.WindowTotal)
			change(m)
			value, err := proto.Marshal(m)
			if err != nil {
				s.t.Fatal(err)
			}
			publish(value)
		}
	}
	undo := func() {
		publish(last.Value)
		// The sink has written what the topic said: wait until it has read the right one as well.
		s.wait("the sink is through", func() bool {
			behind, err := lag(s.t.Context(), s.log, wholeWay())
			return err == nil && behind == 0
		})
		restoreTable()
	}
	s.spoil("a window deleted from the topic", func() { publish(nil) }, undo, "windows topic", "acme TENANT  DAY", "nothing")
	s.spoil("a window of the topic doubled", changed(func(m *weirv1.WindowTotal) { m.OwnNanos, m.ExternalNanos = 2*m.OwnNanos, 2*m.ExternalNanos }), undo, "windows topic", "acme TENANT  DAY", "own nano-dollars")
	s.spoil("one digit of a window of the topic", changed(func(m *weirv1.WindowTotal) { m.InputTokens++ }), undo, "windows topic", "acme TENANT  DAY", "input tokens")
}

// counters changes single numbers of the state that admission's scripts keep: little-endian doubles, the day's own
// amount at byte 40 of its field, an execution's at the start of its own (pkg/budgetstore/lua).
func (s *stage) counters() {
	s.t.Helper()
	// The execution holds something, so it lives in the state's hash.
	const state, head, execution = "w:{acme}:s", "{n", "{xx1"
	ctx := s.t.Context()
	must := func(value string, err error) string {
		if err != nil {
			s.t.Fatal(err)
		}
		return value
	}
	for _, c := range []struct {
		field string
		own   int
		words []string
	}{
		{head, 40, []string{"redis", "tenant acme DAY"}},
		{execution, 0, []string{"redis", "tenant acme execution x1"}},
	} {
		before := must(s.redis.HGet(ctx, state, c.field).Result())
		set := func(v string) { must("", s.redis.HSet(ctx, state, c.field, v).Err()) }
		undo := func() { set(before) }
		change := func(f func(float64) float64) func() {
			return func() {
				b := []byte(before)
				at := b[c.own:]
				binary.LittleEndian.PutUint64(at, math.Float64bits(f(math.Float64frombits(binary.LittleEndian.Uint64(at)))))
				set(string(b))
			}
		}
		s.spoil("one nano-dollar in field "+c.field, change(func(n float64) float64 { return n + 1 }), undo, append(c.words, "own")...)
		s.spoil("doubled in field "+c.field, change(func(n float64) float64 { return 2 * n }), undo, append(c.words, "own")...)
	}
	s.scopeCounters(ctx)
	idle := "w:{acme}:x:x1"
	dumps := map[string]string{state: must(s.redis.Dump(ctx, state).Result()), idle: must(s.redis.Dump(ctx, idle).Result())}
	ttl := max(0, s.redis.PTTL(ctx, idle).Val())
	s.spoil("the tenant's counters gone", func() { s.redis.Del(ctx, state) },
		func() { must(s.redis.Restore(ctx, state, 0, dumps[state]).Result()) }, "redis", "tenant acme", "none")
	s.spoil("the execution's counters gone", func() { s.redis.HDel(ctx, state, execution); s.redis.Del(ctx, idle) }, func() {
		must(s.redis.RestoreReplace(ctx, state, 0, dumps[state]).Result())
		must(s.redis.Restore(ctx, idle, ttl, dumps[idle]).Result())
	}, "redis", "execution x1", "none")
}

// scopeCounters does the same to a sub-scope, whose key is laid out as the tenant's: an agent with a settled and an open
// reservation, under "*".
func (s *stage) scopeCounters(ctx context.Context) {
	s.t.Helper()
	const state, head, own = "w:{acme}:c:a:lead", "{n", 40
	before, err := s.redis.HGet(ctx, state, head).Result()
	if err != nil {
		s.t.Fatal(err)
	}
	dump, ttl := s.redis.Dump(ctx, state).Val(), s.redis.PTTL(ctx, state).Val()
	b := []byte(before)
	binary.LittleEndian.PutUint64(b[own:], math.Float64bits(math.Float64frombits(binary.LittleEndian.Uint64(b[own:]))+1))
	s.spoil("one nano-dollar of an agent", func() { s.redis.HSet(ctx, state, head, string(b)) }, func() { s.redis.HSet(ctx, state, head, before) },
		"redis", "tenant acme agent lead DAY", "own")
	s.spoil("an agent's counters gone", func() { s.redis.Del(ctx, state) }, func() { s.redis.Restore(ctx, state, ttl, dump) },
		"redis", "tenant acme agent lead", "none")
}
