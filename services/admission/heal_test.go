//go:build integration

package admission

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/domain/window"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/gen/weirv1"
	"github.com/weir-project/weir/pkg/outbox"
	"github.com/weir-project/weir/pkg/pgstore"
	"github.com/weir-project/weir/pkg/usageevent"
)

// entry is the journal entry that the attributor would make of a reservation's end.
func (w *world) entry(id, reservation string, at time.Time, mode weirv1.OwnMode, own int64) *weirv1.LedgerEntry {
	k := window.KeysAt(at, w.zone)
	return &weirv1.LedgerEntry{Id: id, Kind: weirv1.EntryKind_ENTRY_KIND_USAGE, TenantId: "acme", ReservationId: reservation, ReservedAt: timestamppb.New(at),
		EventTime: timestamppb.New(at), OwnMode: mode, OwnNanos: own, OutputTokens: own / 10_000_000,
		Windows: &weirv1.WindowKeys{Minute: k.Minute, Hour: k.Hour, Day: k.Day, Month: k.Month}}
}

func (w *world) journal(entries ...*weirv1.LedgerEntry) {
	w.t.Helper()
	for _, e := range entries {
		value, err := proto.Marshal(e)
		w.must(err)
		w.publish(bus.NewRecord(topics.LedgerEntries, e.GetTenantId(), []byte(e.GetTenantId()), value))
	}
}

func (w *world) usedBecomes(r *replica, figure, want string) {
	w.t.Helper()
	w.eventually(figure+" becomes "+want, func() error {
		if got := figureOf(r.budget("acme"), "day", figure); got != want {
			return fmt.Errorf("it is %s", got)
		}
		return nil
	})
}

func reservedAt(t *testing.T, out object) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, fmt.Sprint(out["reserved_at"]))
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// Goal: what a settle script missed, the journal adds exactly once. Method: settle while Redis does not answer, then play
// the attributor, twice, with a duplicate entry at a later offset.
func TestJournalHeals(t *testing.T) {
	w := newWorld(t, one(contract()))
	r := w.start()
	_, made := r.reserve("acme", "r1", 30)
	at := reservedAt(t, made)
	// The journal may be ahead of the script: a direct entry replaces the hold that the script did not reach.
	w.journal(w.entry("e1", "r1", at, weirv1.OwnMode_OWN_MODE_DIRECT, 200_000_000))
	w.usedBecomes(r, "own_usd", "0.2")
	// The same again, as a late write of a dead attributor: no effect.
	w.journal(w.entry("e1", "r1", at, weirv1.OwnMode_OWN_MODE_DIRECT, 200_000_000))
	// A settle without the script: added by the reader, and once only, whatever the offset of its duplicate.
	j := w.entry("e2", "r2", at, weirv1.OwnMode_OWN_MODE_JOURNAL, 100_000_000)
	w.journal(j, j)
	w.usedBecomes(r, "own_usd", "0.3")
	// The marker is behind all of them, so that "nothing more happened" is known and not guessed.
	w.journal(w.entry("e3", "r3", at, weirv1.OwnMode_OWN_MODE_JOURNAL, 10_000_000))
	w.usedBecomes(r, "own_usd", "0.31")
	r.stop()
	// A new owner of the partition knows the old entries.
	w.journal(j)
	r = w.start()
	w.journal(w.entry("e4", "r4", at, weirv1.OwnMode_OWN_MODE_JOURNAL, 10_000_000))
	w.usedBecomes(r, "own_usd", "0.32")
}

// Goal: usage that came from elsewhere closes the hold at nothing, Postgres first; a settle that comes after is booked.
func TestExternalUsageClosesTheHold(t *testing.T) {
	w := newWorld(t, one(contract()))
	r := w.start()
	_, made := r.reserve("acme", "r1", 30)
	w.journal(w.entry("k1", "r1", reservedAt(t, made), weirv1.OwnMode_OWN_MODE_UNSPECIFIED, 0))
	w.usedBecomes(r, "used_usd", "0")
	status, out, _ := r.do("GET", "/v1/reservations/r1", w.keys["acme"], nil)
	w.want("state", status, out, 200, "state", "external")
	status, out, _ = r.do("POST", "/v1/reservations/r1/release", w.keys["acme"], nil)
	w.want("release", status, out, 409, "state", "external")
	for range 2 {
		status, out = r.settle("acme", "r1", object{"meters": object{"output_tokens": 20}, "receipt": made["receipt"]})
		w.want("settle", status, out, 200, "state", "settled", "late", "false")
	}
	rows := w.outboxRows()
	if len(rows) != 1 {
		t.Fatalf("%+v", rows)
	}
	ev, err := usageevent.Decode(rows[0].payload, nil)
	if err != nil || ev.Data.Reservation.OwnMode != usageevent.OwnModeJournal || ev.Data.Reservation.Outcome != usageevent.OutcomeSettled {
		t.Errorf("%+v, %v", ev.Data.Reservation, err)
	}
}

// Goal: usage that never asked lowers what is left and refuses the next reservation.
func TestExternalTotals(t *testing.T) {
	k := contract()
	k.Ceilings.Month = 10 * dollar
	w := newWorld(t, one(k))
	r := w.start()
	month := int64(window.KeysAt(time.Now(), w.zone).Month)
	total := func(version, nanos int64) {
		value, err := proto.Marshal(&weirv1.WindowTotal{TenantId: "acme", ScopeKind: weirv1.ScopeKind_SCOPE_KIND_TENANT, Kind: weirv1.WindowKind_WINDOW_KIND_MONTH,
			Window: month, Version: version, ExternalNanos: nanos, OwnNanos: 12345})
		w.must(err)
		w.publish(bus.NewRecord(topics.BudgetWindows, "acme", fmt.Appendf(nil, "acme/month/%d", month), value))
	}
	total(10, 9_800_000_000)
	w.eventually("the budget falls", func() error {
		if left := fmt.Sprint(r.budget("acme")["remaining"].(object)["month_usd"]); left != "0.2" {
			return fmt.Errorf("left %s", left)
		}
		return nil
	})
	total(9, 0) // an older version changes nothing
	status, out := r.reserve("acme", "r1", 30)
	w.want("beyond the month", status, out, 429, "code", "tenant_quota_exceeded", "window", "month", "rung", "4")
	if out["resets_at"] == nil {
		t.Errorf("%v", out)
	}
	status, out = r.reserve("acme", "r2", 20)
	w.want("what is left", status, out, 201)
}

// Goal: totals and revocations of executions that nobody started and that Redis has no place for are passed over and counted, so
// that they hold nobody up, and a start is none of that.
func TestLeftOutExecutionsAreCounted(t *testing.T) {
	w := newWorld(t, one(contract()))
	r := w.start()
	status, out := r.reserve("acme", "r1", 1)
	w.want("reserve", status, out, 201)
	w.redisCommand(`EVAL "for i = 1, 131072 do redis.call('ZADD', KEYS[1], 9e15, i) end" 1 w:{acme}:v:u`)
	value, err := proto.Marshal(&weirv1.WindowTotal{TenantId: "acme", ScopeKind: weirv1.ScopeKind_SCOPE_KIND_EXECUTION, ScopeId: "named",
		Kind: weirv1.WindowKind_WINDOW_KIND_EXECUTION, Version: 10, ExternalNanos: 7})
	w.must(err)
	w.publish(bus.NewRecord(topics.BudgetWindows, "acme", []byte("acme/execution/named"), value))
	value, err = proto.Marshal(&weirv1.Revocation{TenantId: "acme", RootExecutionId: "revoked", Reason: "cost", RevokedAt: timestamppb.Now()})
	w.must(err)
	w.publish(bus.NewRecord(topics.ExecutionsRevoked, "acme", []byte("acme/revoked"), value))
	w.eventually("both are counted", func() error {
		if n := testutil.ToFloat64(r.svc.metrics.leftOut); n != 2 {
			return fmt.Errorf("%v left out", n)
		}
		return nil
	})
	if n := w.redisCommand("EXISTS w:{acme}:x:named w:{acme}:x:revoked"); n != ":0" {
		t.Errorf("keys: %s", n)
	}
	status, out, _ = r.do("POST", "/v1/executions", w.keys["acme"], object{"root_execution_id": "named", "agent_id": "lead"})
	w.want("start", status, out, 201)
}

// Goal: a revocation ends a whole tree at every replica, also behind one that no breaker writes; trips reach the decisions topic.
func TestRevocationAndTrips(t *testing.T) {
	w := newWorld(t, one(contract()))
	r, other := w.start(), w.start()
	_, root, _ := r.do("POST", "/v1/executions", w.keys["acme"], object{"root_execution_id": "x1", "agent_id": "lead", "max_cost_usd": "0.5"})
	_, child, _ := r.do("POST", "/v1/executions", w.keys["acme"], object{"parent_token": root["token"], "agent_id": "sub"})
	status, out := r.reserve("acme", "r1", 60, object{"execution_token": child["token"]})
	w.want("over the root's budget", status, out, 403, "code", "execution_budget_exceeded")
	w.eventually("the trip is published", func() error {
		for p := range int32(topics.AdmissionDecisions.Partitions()) {
			found := false
			err := w.conn.ReadPartition(t.Context(), topics.AdmissionDecisions, p, -1, -1, func(rec bus.Record) error {
				d := new(weirv1.Decision)
				err := proto.Unmarshal(rec.Value, d)
				found = found || d.GetTrip() && d.GetRootExecutionId() == "x1" && d.GetCode() == "execution_budget_exceeded"
				return err
			})
			if err != nil || found {
				return err
			}
		}
		return fmt.Errorf("not there")
	})
	value, err := proto.Marshal(&weirv1.Revocation{TenantId: "acme", RootExecutionId: "x1", Reason: "admission", RevokedAt: timestamppb.Now()})
	w.must(err)
	status, held := r.reserve("acme", "r2", 10, object{"execution_token": child["token"]})
	w.want("before", status, held, 201)
	nobodys, err := proto.Marshal(&weirv1.Revocation{TenantId: "{", RootExecutionId: "x1", Reason: "admission", RevokedAt: timestamppb.Now()})
	w.must(err)
	w.publish(bus.NewRecord(topics.ExecutionsRevoked, "acme", []byte("{/x1"), nobodys))
	w.publish(bus.NewRecord(topics.ExecutionsRevoked, "acme", []byte("acme/x1"), value))
	w.eventually("revoked", func() error {
		status, out := other.reserve("acme", fmt.Sprint("r", time.Now().UnixNano()), 1, object{"execution_token": child["token"]})
		if status != 403 || out["code"] != "execution_revoked" {
			return fmt.Errorf("%d %v", status, out)
		}
		return nil
	})
	status, out, _ = r.do("POST", "/v1/executions", w.keys["acme"], object{"parent_token": root["token"], "agent_id": "another"})
	w.want("a child of a revoked root", status, out, 403, "code", "execution_revoked")
	status, out, _ = r.do("POST", "/v1/executions", w.keys["acme"], object{"root_execution_id": "x1", "agent_id": "lead"})
	w.want("resume of a revoked root", status, out, 403, "code", "execution_revoked")
	status, out, _ = r.do("POST", "/v1/reservations/r2/extend", w.keys["acme"], nil)
	w.want("heartbeat of a revoked tree", status, out, 200, "stop", "true", "reason", "execution_revoked")
}

// Goal: a tenant's counters come into being whichever step of it was the last before a crash. Method: each prefix of
// makeTenant, then a reservation.
func TestTenantStateSurvivesCrashes(t *testing.T) {
	steps := []func(ctx context.Context, s *Service, who budgetstore.Tenant) error{
		func(ctx context.Context, s *Service, who budgetstore.Tenant) error {
			_, err := s.rows.BeginTenant(ctx, who.ID, who.Epoch)
			return err
		},
		func(ctx context.Context, s *Service, who budgetstore.Tenant) error {
			_, err := s.counters.CreateTenant(ctx, who)
			return err
		},
		func(ctx context.Context, s *Service, who budgetstore.Tenant) error {
			return s.rows.ReadyTenant(ctx, who.ID, who.Epoch)
		},
		func(ctx context.Context, s *Service, who budgetstore.Tenant) error {
			return s.counters.MarkReady(ctx, who)
		},
	}
	contracts := map[string]tenant.Contract{}
	for n := range len(steps) + 1 {
		contracts[fmt.Sprint("t", n)] = contract()
	}
	w := newWorld(t, contracts)
	r := w.start()
	for n := range len(steps) + 1 {
		who := budgetstore.Tenant{ID: fmt.Sprint("t", n), Epoch: 4711}
		for _, step := range steps[:n] {
			w.must(step(t.Context(), r.svc, who))
		}
		status, out := r.reserve(who.ID, "r", 30)
		w.want(fmt.Sprintf("after %d steps", n), status, out, 201)
	}
	// A key that is gone while its row says ready was lost: never again.
	w.redisCommand("DEL w:{t1}:s")
	status, out := r.reserve("t1", "again", 30)
	w.want("lost", status, out, 503, "code", "budget_store_recovering")
	w.eventually("the epoch is over", func() error {
		if row := w.epochNow(); row.Lost != 4711 || !row.Recovering {
			return fmt.Errorf("%+v", row)
		}
		return nil
	})
}

// Goal: a crash between Postgres and Redis leaves nothing behind. Method: the row as a crash would leave it, then the
// lease runs out.
func TestReaperFollowsPostgres(t *testing.T) {
	w := newWorld(t, one(contract()))
	later := w.movable()
	r := w.start()
	for _, c := range []struct {
		id   string
		row  func(subject) pgstore.Row
		used string
	}{
		{"settled", func(s subject) pgstore.Row {
			row := s.row(pgstore.Settled)
			row.OwnMode, row.OwnNanos, row.EventID = pgstore.OwnDirect, 120_000_000, "settle:x"
			return row
		}, "0.12"},
		{"released", func(s subject) pgstore.Row { return s.row(pgstore.Released) }, "0.12"},
		{"external", func(s subject) pgstore.Row { return s.row(pgstore.External) }, "0.12"},
		{"later", func(s subject) pgstore.Row {
			row := s.row(pgstore.Released)
			row.ReservedAt = row.ReservedAt.Add(time.Hour)
			return row
		}, "0.12"},
		{"earlier", func(s subject) pgstore.Row { // of an earlier reservation of the id: it says nothing of this one
			row := s.row(pgstore.Released)
			row.ReservedAt = row.ReservedAt.Add(-time.Hour)
			return row
		}, "0.42"},
	} {
		status, out := r.reserve("acme", c.id, 30, object{"lease_seconds": 60})
		w.want(c.id, status, out, 201)
		subj, err := r.svc.fromHold(t.Context(), "acme", c.id)
		w.must(err)
		row := c.row(*subj)
		var event *outbox.Event
		if row.EventID != "" {
			event = &outbox.Event{ID: row.EventID, AggregateType: "tenant", AggregateID: "acme", Type: "t", Payload: []byte("{}")}
		}
		_, done, err := r.svc.rows.End(t.Context(), row, event)
		if err != nil || !done {
			t.Fatalf("%s: %v, %v", c.id, done, err)
		}
		later(61 * time.Second)
		w.eventually(c.id+" is followed", func() error {
			b := r.budget("acme")
			if used, held := figureOf(b, "day", "used_usd"), figureOf(b, "day", "held_usd"); used != c.used || held != "0" {
				return fmt.Errorf("used %s, held %s", used, held)
			}
			return nil
		})
	}
	// A hold whose id has ended as a later reservation, by another clock of Redis', cannot be settled: 409, and it is freed.
	status, out := r.reserve("acme", "reused", 30)
	w.want("reused", status, out, 201)
	subj, err := r.svc.fromHold(t.Context(), "acme", "reused")
	w.must(err)
	row := subj.row(pgstore.Released)
	row.ReservedAt = row.ReservedAt.Add(time.Hour)
	_, _, err = r.svc.rows.End(t.Context(), row, nil)
	w.must(err)
	status, out = r.settle("acme", "reused", object{"meters": object{"output_tokens": 1}})
	w.want("settle of it", status, out, 409, "code", "reservation_conflict")
	w.usedBecomes(r, "held_usd", "0")
}

// Goal: admission needs Kafka for nothing that a request waits for. Method: the follower state stays, the decisions wait.
func TestRefusalsLeaveNoTrace(t *testing.T) {
	k := contract()
	k.Limits = tenant.Limits{RequestsPerMinute: 1, Concurrency: 10}
	w := newWorld(t, one(k))
	r := w.start()
	status, out := r.reserve("acme", "r1", 1)
	w.want("first", status, out, 201)
	before := r.budget("acme")
	for i := range 100 {
		status, out, header := r.do("POST", "/v1/reservations", w.keys["acme"], object{"reservation_id": fmt.Sprint("n", i), "provider": "openai", "model": "flat",
			"estimate": object{"input_tokens": 1, "max_output_tokens": 1}})
		w.want("refused", status, out, 429, "code", "rate_limited", "limit", string(admit.LimitRequests))
		if header.Get("Retry-After") == "" || header.Get("RateLimit") == "" || header.Get("RateLimit-Policy") != `"requests";q=1;w=60, "concurrency";q=10;qu="concurrent-requests"` {
			t.Fatalf("%v", header)
		}
	}
	after := r.budget("acme")
	delete(before, "as_of")
	delete(after, "as_of")
	if fmt.Sprint(before) != fmt.Sprint(after) {
		t.Errorf("100 refusals changed something (field report 10):\n%v\n%v", before, after)
	}
}
