//go:build integration

package pgstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/migrate"
	"github.com/weir-project/weir/pkg/outbox"
	"github.com/weir-project/weir/pkg/pgstore"
	"github.com/weir-project/weir/pkg/testkit"
)

// patience bounds every wait of these tests; nothing waits that long when all is well.
const patience = 2 * time.Minute

type fixture struct {
	t       testing.TB
	address string
	*pgstore.Store
}

// reopen opens an epoch as the leader of its recovery does. The server gives the lead of the last one back when it has
// noticed that its connection is closed, so it is asked until then.
func (f fixture) reopen(epoch int64, ids []string) error {
	lead, err := f.TryLead(f.t.Context())
	for deadline := time.Now().Add(patience); lead == nil && err == nil && time.Now().Before(deadline); {
		lead, err = f.TryLead(f.t.Context())
	}
	if err != nil {
		return err
	}
	if lead == nil {
		return errors.New("somebody leads")
	}
	return errors.Join(lead.Finish(f.t.Context(), epoch, ids), lead.Close(f.t.Context()))
}

// open is a database whose epoch is 7, that of every row of these tests.
func open(t testing.TB) fixture {
	t.Helper()
	f := openNew(t)
	_, err := f.InitEpoch(t.Context(), 7, 1)
	f.must(err)
	return f
}

func openNew(t testing.TB) fixture {
	t.Helper()
	return openAt(t, testkit.MigratedPostgres(t))
}

// openAt makes the tables that are missing.
func openAt(t testing.TB, address string) fixture {
	t.Helper()
	f := fixture{t: t, address: address}
	conn, err := pgx.Connect(t.Context(), f.address)
	f.must(err)
	_, err = migrate.Postgres(t.Context(), conn, os.DirFS("../../migrations/postgres"))
	f.must(err)
	f.must(conn.Close(t.Context()))
	f.Store, err = pgstore.Open(t.Context(), f.address)
	f.must(err)
	t.Cleanup(f.Store.Close)
	f.must(f.Ping(t.Context()))
	return f
}

func (f fixture) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// events are the ids in the outbox.
func (f fixture) events() []string {
	f.t.Helper()
	conn, err := pgx.Connect(f.t.Context(), f.address)
	f.must(err)
	defer conn.Close(f.t.Context())
	rows, err := conn.Query(f.t.Context(), "SELECT id FROM outbox ORDER BY seq")
	f.must(err)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	f.must(err)
	return ids
}

func at(n int) time.Time { return time.Date(2026, 11, 30, 23, 59, n, 123456000, time.UTC) }

func row(id string, outcome pgstore.Outcome) pgstore.Row {
	r := pgstore.Row{Tenant: "acme", ReservationID: id, ReservedAt: at(0), Outcome: outcome, Fingerprint: []byte("f"), HeldNanos: 300, Epoch: 7,
		Call: []byte(`{"provider":"openai"}`), Answer: []byte(`{"state":"…"}`)}
	if outcome == pgstore.Settled || outcome == pgstore.Expired {
		r.EventID, r.OwnMode, r.OwnNanos = "e:"+id, pgstore.OwnDirect, 200
	}
	return r
}

func event(id string) *outbox.Event {
	return &outbox.Event{ID: id, AggregateType: "tenant", AggregateID: "acme", Type: "weir.usage.v1", Payload: []byte("{}")}
}

// Goal: of many ends of one reservation exactly one is recorded, with exactly its own event (field report 77).
func TestOneEndWins(t *testing.T) {
	f := open(t)
	var wins atomic.Int32
	var start, done sync.WaitGroup
	start.Add(1)
	answers := make([]pgstore.Row, 16)
	for i := range answers {
		done.Go(func() {
			start.Wait()
			r := row("r1", pgstore.Settled)
			r.EventID, r.OwnNanos = fmt.Sprint("e", i), money.Nano(i)
			stored, won, err := f.End(t.Context(), r, event(r.EventID))
			if err != nil {
				t.Error(err)
			}
			if won {
				wins.Add(1)
			}
			answers[i] = stored
		})
	}
	start.Done()
	done.Wait()
	if wins.Load() != 1 {
		t.Fatalf("%d ends won", wins.Load())
	}
	for _, a := range answers {
		if a.EventID != answers[0].EventID {
			t.Errorf("told %s and %s", a.EventID, answers[0].EventID)
		}
	}
	if ids := f.events(); len(ids) != 1 || ids[0] != answers[0].EventID {
		t.Errorf("events %v, want only %s", ids, answers[0].EventID)
	}
	got, ok, err := f.Get(t.Context(), "acme", "r1")
	if err != nil || !ok || got.EventID != answers[0].EventID {
		t.Errorf("%+v %v %v", got, ok, err)
	}
	if _, ok, err := f.Get(t.Context(), "beta", "r1"); ok || err != nil {
		t.Errorf("another tenant's reservation of that id: %v %v (field report 68)", ok, err)
	}
}

// Goal: a row comes back as it went in.
func TestRowRoundTrip(t *testing.T) {
	f := open(t)
	for _, outcome := range []pgstore.Outcome{pgstore.Settled, pgstore.Released, pgstore.Expired, pgstore.External} {
		want := row(string(outcome), outcome)
		_, won, err := f.End(t.Context(), want, nil)
		got, ok, getErr := f.Get(t.Context(), "acme", string(outcome))
		if err != nil || getErr != nil || !won || !ok || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v\n%+v\n%v %v", got, want, err, getErr)
		}
	}
	wrong := row("wrong", pgstore.Settled)
	wrong.OwnNanos = money.Nano(1 << 53)
	if _, _, err := f.End(t.Context(), wrong, nil); err == nil {
		t.Error("an amount beyond a counter was stored")
	}
	if _, ok, _ := f.Get(t.Context(), "acme", "wrong"); ok {
		t.Error("half a transaction was committed")
	}
}

// Goal: what was held is corrected in the row of that settle, its answer with it, and in no other.
func TestSetHeld(t *testing.T) {
	f := open(t)
	want := row("r1", pgstore.Settled)
	if _, won, err := f.End(t.Context(), want, nil); err != nil || !won {
		t.Fatal(won, err)
	}
	for name, other := range map[string]func(*pgstore.Row){
		"another id":    func(r *pgstore.Row) { r.ReservationID = "r2" },
		"another hold":  func(r *pgstore.Row) { r.ReservedAt = r.ReservedAt.Add(time.Microsecond) },
		"another event": func(r *pgstore.Row) { r.EventID = "late:r1" },
	} {
		changed := want
		changed.HeldNanos++
		other(&changed)
		if err := f.SetHeld(t.Context(), changed); !errors.Is(err, pgstore.ErrNoRow) {
			t.Errorf("%s: %v", name, err)
		}
	}
	want.HeldNanos, want.Answer = want.HeldNanos+7, []byte("more was held")
	for range 2 {
		if err := f.SetHeld(t.Context(), want); err != nil {
			t.Fatal(err)
		}
	}
	if got, _, err := f.Get(t.Context(), "acme", "r1"); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v: %v", got, want, err)
	}
}

// Goal: one late figure, and only where one is due.
func TestLate(t *testing.T) {
	f := open(t)
	estimated := row("estimated", pgstore.Settled)
	estimated.Estimated = true
	for _, c := range []struct {
		row  pgstore.Row
		take bool
	}{{row("expired", pgstore.Expired), true}, {row("released", pgstore.Released), true}, {estimated, true},
		{row("settled", pgstore.Settled), false}, {row("external", pgstore.External), false}} {
		_, _, err := f.End(t.Context(), c.row, nil)
		f.must(err)
		late := pgstore.Late{EventID: "late:" + c.row.ReservationID, Fingerprint: []byte("l"), Answer: []byte("{}")}
		wrongHold := c.row
		wrongHold.ReservedAt = at(1)
		if _, done, err := f.AddLate(t.Context(), wrongHold, late, *event("no")); done || err != nil {
			t.Errorf("%s: a figure of another hold: %v, %v", c.row.ReservationID, done, err)
		}
		for try := range 2 {
			stored, done, err := f.AddLate(t.Context(), c.row, late, *event(late.EventID))
			if err != nil || done != (c.take && try == 0) || (stored.Late != nil) != c.take {
				t.Errorf("%s, try %d: %+v, %v, %v", c.row.ReservationID, try, stored, done, err)
			}
			if c.take && !bytes.Equal(stored.Late.Answer, late.Answer) {
				t.Errorf("%s: %s", c.row.ReservationID, stored.Late.Answer)
			}
		}
	}
	if ids := f.events(); fmt.Sprint(ids) != "[late:expired late:released late:estimated]" {
		t.Errorf("events %v", ids)
	}
}

// Goal: an id that is used again is another reservation. Its end takes the row over, late figure included, with its own event;
// what comes for the earlier one after that finds the later one.
func TestLaterReservationTakesTheRow(t *testing.T) {
	f := open(t)
	end := func(at time.Time, outcome pgstore.Outcome, event *outbox.Event) (pgstore.Row, bool) {
		r := row("r1", outcome)
		r.ReservedAt = at
		if event != nil {
			r.EventID = event.ID
		}
		stored, done, err := f.End(t.Context(), r, event)
		f.must(err)
		return stored, done
	}
	first, done := end(at(1), pgstore.Expired, event("first"))
	if !done {
		t.Fatal("the first does not end")
	}
	_, done, err := f.AddLate(t.Context(), first, pgstore.Late{EventID: "late", Fingerprint: []byte("l"), Answer: []byte("{}")}, *event("late"))
	if err != nil || !done {
		t.Fatalf("%v, %v", done, err)
	}
	for _, outcome := range []pgstore.Outcome{pgstore.Released, pgstore.Settled} { // the first of them has no event
		if stored, done := end(at(1), outcome, nil); done || !stored.ReservedAt.Equal(at(1)) || stored.Late == nil {
			t.Errorf("the same again, %s: %+v, %v", outcome, stored, done)
		}
	}
	if stored, done := end(at(2), pgstore.External, nil); done || !stored.ReservedAt.Equal(at(1)) {
		t.Errorf("usage from elsewhere: %+v, %v", stored, done)
	}
	if stored, done := end(at(2), pgstore.Settled, event("second")); !done || stored.EventID != "second" {
		t.Errorf("the second: %+v, %v", stored, done)
	}
	if stored, done := end(at(1), pgstore.Settled, event("no")); done || !stored.ReservedAt.Equal(at(2)) {
		t.Errorf("the first after the second: %+v, %v", stored, done)
	}
	if _, done, err := f.AddLate(t.Context(), first, pgstore.Late{EventID: "no", Fingerprint: []byte("l"), Answer: []byte("{}")}, *event("no")); done || err != nil {
		t.Errorf("a late figure of the first after the second: %v, %v", done, err)
	}
	got, _, err := f.Get(t.Context(), "acme", "r1")
	if err != nil || got.EventID != "second" || got.Outcome != pgstore.Settled || got.Late != nil {
		t.Errorf("%+v: %v", got, err)
	}
	if ids := f.events(); fmt.Sprint(ids) != "[first late second]" {
		t.Errorf("events %v", ids)
	}
}

func TestSettleExternal(t *testing.T) {
	f := open(t)
	_, _, err := f.End(t.Context(), row("r1", pgstore.External), nil)
	f.must(err)
	settled := row("r1", pgstore.Settled)
	for try := range 2 {
		stored, done, err := f.SettleExternal(t.Context(), settled, *event("e"))
		if err != nil || done != (try == 0) || stored.Outcome != pgstore.Settled || stored.EventID != settled.EventID {
			t.Errorf("%+v, %v, %v", stored, done, err)
		}
	}
	if ids := f.events(); len(ids) != 1 {
		t.Errorf("events %v", ids)
	}
}

// Goal: limits are stored once and only fall.
func TestExecutionLimitsOnlyFall(t *testing.T) {
	f := open(t)
	for i, c := range []struct {
		cost, wantCost   money.Nano
		depth, wantDepth int
	}{{0, 0, 0, 0}, {500, 500, 0, 0}, {900, 500, 3, 3}, {0, 500, 0, 3}, {100, 100, 9, 3}, {0, 100, 1, 1}} {
		got, err := f.StartExecution(t.Context(), pgstore.Execution{Tenant: "acme", Root: "x1", Agent: fmt.Sprint("a", i), MaxCost: c.cost, MaxDepth: c.depth})
		if err != nil || got.MaxCost != c.wantCost || got.MaxDepth != c.wantDepth || got.Agent != "a0" || got.CreatedAt.IsZero() {
			t.Errorf("%d: %+v, %v", i, got, err)
		}
	}
	first, ok, err := f.CloseExecution(t.Context(), "acme", "x1")
	again, _, err2 := f.CloseExecution(t.Context(), "acme", "x1")
	if err != nil || err2 != nil || !ok || !first.Equal(again) {
		t.Errorf("%v %v %v %v", first, again, err, err2)
	}
	if stored, ok, err := f.Execution(t.Context(), "acme", "x1"); !ok || err != nil || stored.Agent == "" || !stored.ClosedAt.Equal(first) {
		t.Errorf("stored: %+v, %v, %v", stored, ok, err)
	}
	if _, ok, err := f.Execution(t.Context(), "beta", "x1"); ok || err != nil {
		t.Errorf("another tenant's: %v, %v", ok, err)
	}
	if _, ok, err := f.CloseExecution(t.Context(), "beta", "x1"); ok || err != nil {
		t.Errorf("another tenant closed it: %v, %v", ok, err)
	}
}

func TestEpochAndTenantStates(t *testing.T) {
	f := openNew(t)
	if _, ok, err := f.Epoch(t.Context()); ok || err != nil {
		t.Fatalf("%v, %v", ok, err)
	}
	for _, try := range []int64{5, 6} {
		if got, err := f.InitEpoch(t.Context(), try, 1); got != 5 || err != nil {
			t.Errorf("%d, %v", got, err)
		}
	}
	ctx := context.Background()
	state := func(want pgstore.TenantState) {
		t.Helper()
		if got, err := f.TenantState(ctx, "acme", 5); got != want || err != nil {
			t.Errorf("%v, %v; want %v", got, err, want)
		}
	}
	state(pgstore.StateNone)
	f.must(f.ReadyTenant(ctx, "acme", 5)) // of nothing: nothing
	state(pgstore.StateNone)
	for range 2 {
		if got, err := f.BeginTenant(ctx, "acme", 5); got != pgstore.StateMaking || err != nil {
			t.Errorf("%v, %v", got, err)
		}
	}
	state(pgstore.StateMaking)
	f.must(f.ReadyTenant(ctx, "acme", 5))
	state(pgstore.StateReady)
	if got, err := f.BeginTenant(ctx, "acme", 5); got != pgstore.StateReady || err != nil {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := f.TenantState(ctx, "acme", 6); got != pgstore.StateNone || err != nil {
		t.Errorf("another epoch: %v, %v", got, err)
	}
}

func TestPrune(t *testing.T) {
	f := open(t)
	for i := range 5 {
		_, _, err := f.End(t.Context(), row(fmt.Sprint(i), pgstore.Released), nil)
		f.must(err)
	}
	past, future := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	for i, c := range []struct {
		before time.Time
		want   int64
	}{{past, 0}, {future, 2}, {future, 2}, {future, 1}, {future, 0}} {
		if n, err := f.Prune(t.Context(), c.before, past, 2); n != c.want || err != nil {
			t.Errorf("%d: %d, %v", i, n, err)
		}
	}
}
