package audit_test

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/weir-project/weir/pkg/audit"
	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/gen/weirv1"
	"github.com/weir-project/weir/pkg/usageevent"
)

// small is a world with one of each: external usage, a settle, a settle that takes an external figure back, an unpriced
// call, an expired hold, a termination, a duplicate, a rerouted event, and two dead letters.
func small(t *testing.T, change func(*world)) *world {
	t.Helper()
	w := &world{t: t, next: map[string]int64{}, offsets: map[*weirv1.LedgerEntry]int64{}, tenants: map[string]audit.Counters{}, roots: map[string]audit.ExecutionCounters{}, scopes: map[string]audit.Counters{}}
	w.catalog()
	at, external := w.send(event("acme", "external"))
	w.book(at, external, 0, 35_000_100, nil, line{"input_tokens", "10000", "0.0000025"}, line{"output_tokens", "1000", "0.0000100001"})

	settle := event("acme", "settle")
	settle.Data.ReservationID, settle.Data.ParentAgentID, settle.Data.AgentID, settle.Data.ResponseID = "r1", "lead", "scraper", "resp-1"
	at, settle = w.send(settle)
	w.book(at, settle, 2_600_001, 0, nil, line{"input_tokens", "1000", "0.0000025"}, line{"output_tokens", "10", "0.00001000000001"})

	named := event("beta", "named")
	named.Data.ReservationID = "r2"
	at, named = w.send(named)
	k := w.book(at, named, 0, 25_000, nil, line{"input_tokens", "10", "0.0000025"})
	own := event("beta", "own")
	own.Data.ReservationID = "r2"
	at, own = w.send(own)
	w.reverse(k, at, own)
	w.book(at, own, 25_000, 0, nil, line{"input_tokens", "10", "0.0000025"})

	unpriced := event("acme", "unpriced")
	unpriced.Data.Model, unpriced.Data.RootExecutionID = "nobody-knows", ""
	at, unpriced = w.send(unpriced)
	w.book(at, unpriced, 0, 0, func(e *weirv1.LedgerEntry) { e.Flags, e.PriceVersion = []string{"unpriced"}, "" }, line{"input_tokens", "7", ""})

	expired := event("acme", "unsettled:r3:1")
	expired.Source, expired.Type, expired.Data.ReservationID = usageevent.SourceAdmission, usageevent.TypeUnsettled, "r3"
	expired.Data.APIKeyID, expired.Data.Reservation = "k1", &usageevent.Reservation{ReservedAt: eventTime(), Outcome: usageevent.OutcomeUnsettled,
		Scopes: map[string]string{"cost_center": "sales", "api_key": "k1"}, Branches: []string{"b2", "b1"}}
	at, expired = w.send(expired)
	w.book(at, expired, 10_000_000, 0, func(e *weirv1.LedgerEntry) {
		e.Kind, e.Status, e.Flags = weirv1.EntryKind_ENTRY_KIND_UNSETTLED, 0, []string{"estimated"}
		e.ApiKeyId, e.ReservedAt = "k1", e.EventTime
		e.Scopes = []*weirv1.ScopeKey{{Kind: weirv1.ScopeKind_SCOPE_KIND_API_KEY, Id: "k1"}, {Kind: weirv1.ScopeKind_SCOPE_KIND_COST_CENTER, Id: "sales"},
			{Kind: weirv1.ScopeKind_SCOPE_KIND_EXECUTION_BRANCH, Id: "b1"}, {Kind: weirv1.ScopeKind_SCOPE_KIND_EXECUTION_BRANCH, Id: "b2"}}
	}, line{"estimate", "1", "0.01"})

	ended := event("acme", "termination:x1")
	ended.Source, ended.Type = usageevent.SourceBreaker, usageevent.TypeTermination
	at, ended = w.send(ended)
	w.book(at, ended, 0, 0, func(e *weirv1.LedgerEntry) {
		e.Kind, e.Status, e.PriceVersion, e.Scopes = weirv1.EntryKind_ENTRY_KIND_CIRCUIT_BREAKER_TERMINATION, 0, "", nil
	})
	w.oddEvents(external)
	if change != nil {
		change(w)
	}
	w.derive()
	return w
}

// oddEvents are those that make no entry of their own.
func (w *world) oddEvents(external usageevent.Event) {
	w.send(external) // the same again
	span := external
	span.ID, span.Data.ResponseID = "span", "resp-1"
	w.send(span) // the response that was settled, seen by a tracer

	other := external
	other.Data.Model = "gpt-4o-mini"
	at, _ := w.send(other)
	w.dead(at, usageevent.Encode(other), "conflict")
	poison := bus.NewRecord(topics.UsageEvents, "", nil, []byte("no event"))
	w.dead(place{poison.Partition, w.add(poison)}, poison.Value, "malformed")

	home := bus.PartitionFor([]byte("beta"), topics.UsageEvents.Partitions())
	stray := event("beta", "stray")
	w.send(stray, (home+1)%int32(topics.UsageEvents.Partitions()))
	again := bus.NewRecord(topics.UsageEvents, "beta", []byte("beta"), usageevent.Encode(stray), bus.Header{Key: "weir-rerouted", Value: []byte("1")})
	w.book(place{home, w.add(again)}, stray, 0, 25_000, nil, line{"input_tokens", "10", "0.0000025"})
	hostile := bus.NewRecord(topics.UsageEvents, "beta", []byte("beta"), []byte(`{"subject":"beta"}`))
	hostile.Partition = (home + 1) % int32(topics.UsageEvents.Partitions())
	w.add(hostile)
	hostile.Partition, hostile.Headers = home, []bus.Header{{Key: "weir-rerouted", Value: []byte("1")}}
	w.dead(place{home, w.add(hostile)}, hostile.Value, "malformed")
}

func (w *world) catalog() {
	version := func(zone, markup string) *weirv1.TenantVersion {
		return &weirv1.TenantVersion{EffectiveFrom: timestamppb.New(time.Unix(0, 0)), Timezone: zone, MarkupPercent: markup, Count: "raw"}
	}
	scope := func(kind, id, day string) *weirv1.TenantScope {
		return &weirv1.TenantScope{Kind: kind, Id: id, Ceilings: &weirv1.TenantCeilings{DayUsd: day}}
	}
	scoped := []*weirv1.TenantScope{scope("cost_center", "sales", "5"), scope("agent", "*", "1"), scope("agent", "lead", ""), scope("api_key", "k1", "2")}
	for id, v := range map[string]*weirv1.TenantVersion{"acme": version("Europe/Budapest", "12.50"), "beta": version("", "")} {
		if id == "acme" {
			v.Scopes = scoped
		}
		h := &weirv1.TenantHistory{TenantId: id, Versions: []*weirv1.TenantVersion{v}}
		w.add(bus.NewRecord(topics.CatalogTenants, id, []byte(id), w.encode(h)))
	}
	prices := &weirv1.PriceHistory{Provider: "openai", Model: "gpt-4o", Versions: []*weirv1.PriceVersion{{Id: "pv_1"}}}
	w.add(bus.NewRecord(topics.CatalogPrices, "openai/gpt-4o", []byte("openai/gpt-4o"), w.encode(prices)))
}

func TestCleanWorld(t *testing.T) {
	r := small(t, nil).run()
	if !r.OK || len(r.Differences) != 0 {
		t.Fatalf("%+v", r)
	}
	want := audit.Report{
		Events: 15, Entries: 9, DeadLetters: 3, Duplicates: 4, LedgerRows: 9, Windows: 21, Tenants: 2, Scopes: 3, Executions: 4, // two of them are branches
		RawCostUSD: "0.0476501000001", BilledUSD: "0.0536001125001125", OK: true,
	}
	r.Differences = nil
	if got := r; got.RawCostUSD != want.RawCostUSD || got.BilledUSD != want.BilledUSD || got.Events != want.Events || got.Entries != want.Entries ||
		got.DeadLetters != want.DeadLetters || got.Duplicates != want.Duplicates || got.LedgerRows != want.LedgerRows || got.Windows != want.Windows ||
		got.Scopes != want.Scopes || got.Tenants != want.Tenants || got.Executions != want.Executions {
		t.Errorf("%+v,\nwant %+v", got, want)
	}
}

// Whoever named an entry's day may not have known the contract of that instant yet: a day of another zone of the tenant's is one.
func TestDayOfAnotherZone(t *testing.T) {
	for zone, ok := range map[string]bool{"UTC": true, "Europe/Budapest": false} { // in which it was the 14th, or the 15th already
		w := small(t, nil)
		h := &weirv1.TenantHistory{TenantId: "beta"}
		for _, v := range []struct {
			from time.Time
			zone string
		}{{time.Unix(0, 0), zone}, {eventTime().Add(-time.Second), "Asia/Tokyo"}} {
			h.Versions = append(h.Versions, &weirv1.TenantVersion{EffectiveFrom: timestamppb.New(v.from), Timezone: v.zone, Count: "raw"})
		}
		w.add(bus.NewRecord(topics.CatalogTenants, "beta", []byte("beta"), w.encode(h)))
		if r := w.run(); names(r, "journal", "day", "20260314") == ok {
			t.Errorf("%s: %v", zone, r.Differences)
		}
	}
}

// An empty log is a difference, also where nothing else is there either.
func TestEmptyLogIsNotOK(t *testing.T) {
	w := &world{t: t}
	if r := w.run(); r.OK || !names(r, "journal", "ledger.entries.v1") {
		t.Errorf("%+v", r)
	}
}

// names reports whether a difference stands in that store and names all of that.
func names(r audit.Report, where string, words ...string) bool {
	for _, d := range r.Differences {
		found := d.Where == where
		for _, word := range words {
			found = found && strings.Contains(d.String(), word)
		}
		if found {
			return true
		}
	}
	return false
}

// spoiling is one thing that went wrong, and where the audit must say so.
type spoiling struct {
	name  string
	spoil func(*world)
	where string
	words []string
}

// TestSpoiledStores changes ClickHouse and Redis, one thing at a time, under a log that is right.
func TestSpoiledStores(t *testing.T) {
	clean := small(t, nil)
	conn := connect(t)
	clean.play(conn)
	for _, s := range append(append(spoiledRows(), spoiledWindows()...), spoiledCounters()...) {
		t.Run(s.name, func(t *testing.T) {
			w := small(t, nil)
			s.spoil(w)
			if r := w.audit(conn); r.OK || !names(r, s.where, s.words...) {
				t.Errorf("want %s: %v; got %v", s.where, s.words, r.Differences)
			} else if len(r.Differences) > 2 {
				t.Errorf("one spoiling, but %v", r.Differences)
			}
		})
	}
}

// TestSpoiledLog changes the log itself, one thing at a time, and lets the stores follow it.
func TestSpoiledLog(t *testing.T) {
	for _, s := range append(spoiledJournal(), spoiledEvents()...) {
		t.Run(s.name, func(t *testing.T) {
			if r := small(t, s.spoil).run(); r.OK || !names(r, s.where, s.words...) {
				t.Errorf("want %s: %v; got %v", s.where, s.words, r.Differences)
			}
		})
	}
}

func TestSpoiledWindowTopic(t *testing.T) {
	for _, s := range spoiledTopic() {
		t.Run(s.name, func(t *testing.T) {
			w := small(t, nil)
			s.spoil(w)
			if r := w.run(); r.OK || !names(r, s.where, s.words...) {
				t.Errorf("want %s: %v; got %v", s.where, s.words, r.Differences)
			}
		})
	}
}

// A late write of a dead owner is in the journal twice, with the same content: it counts once and is no difference.
func TestRepeatedEntryCountsOnce(t *testing.T) {
	w := small(t, nil)
	again := proto.Clone(w.entries[0]).(*weirv1.LedgerEntry)
	again.SourceOffset, again.RecordedAt = again.SourceOffset+100, timestamppb.New(now())
	w.add(bus.NewRecord(topics.LedgerEntries, again.TenantId, []byte(again.TenantId), w.encode(again)))
	if r := w.run(); !r.OK || r.Entries != 9 {
		t.Errorf("%+v", r)
	}
}

// A second opinion that shared the code it checks would share its faults.
func TestImportsNoDecision(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, imported := range strings.Fields(string(out)) {
		for _, banned := range []string{"pricing", "window", "ledger", "usage", "admit", "ladder", "breaker", "tenant", "lineage"} {
			if strings.Contains(imported, "weir/pkg/domain/"+banned) {
				t.Errorf("links %s", imported)
			}
		}
	}
	if !strings.Contains(string(out), "pkg/domain/money") {
		t.Errorf("this test reads nothing: %s", out)
	}
}
