package audit_test

import (
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/weir-project/weir/pkg/audit"
	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/gen/weirv1"
	"github.com/weir-project/weir/pkg/usageevent"
)

// settled is the place of the settle in rows and entries: it has a value in nearly every column.
const settled = 1

func spoiledRows() []spoiling {
	id := entryID("acme", "app", "settle", "usage")
	row := func(name string, change func(*audit.LedgerRow)) spoiling {
		return spoiling{"row " + name, func(w *world) { change(&w.rows[settled]) }, "ledger", []string{id, name}}
	}
	all := []spoiling{
		{"row deleted", func(w *world) { w.rows = slices.Delete(w.rows, settled, settled+1) }, "ledger", []string{id, "once", "0 times"}},
		{"row doubled", func(w *world) { w.rows = append(w.rows, w.rows[settled]) }, "ledger", []string{id, "once", "2 times"}},
		{"row invented", func(w *world) { w.rows = append(w.rows, audit.LedgerRow{ID: "e_1", TenantID: "acme"}) }, "ledger", []string{"e_1", "nothing"}},
	}
	for name, field := range map[string]func(*audit.LedgerRow) *string{
		"tenant_id": func(r *audit.LedgerRow) *string { return &r.TenantID }, "root_execution_id": func(r *audit.LedgerRow) *string { return &r.Root },
		"parent_agent_id": func(r *audit.LedgerRow) *string { return &r.Parent }, "agent_id": func(r *audit.LedgerRow) *string { return &r.Agent },
		"cost_center": func(r *audit.LedgerRow) *string { return &r.CostCenter }, "provider": func(r *audit.LedgerRow) *string { return &r.Provider },
		"model_or_resource": func(r *audit.LedgerRow) *string { return &r.Model }, "status": func(r *audit.LedgerRow) *string { return &r.Status },
		"error_code": func(r *audit.LedgerRow) *string { return &r.ErrorCode }, "entry_kind": func(r *audit.LedgerRow) *string { return &r.Kind },
		"source": func(r *audit.LedgerRow) *string { return &r.Source }, "event_id": func(r *audit.LedgerRow) *string { return &r.EventID },
		"response_id": func(r *audit.LedgerRow) *string { return &r.ResponseID }, "reservation_id": func(r *audit.LedgerRow) *string { return &r.Reservation },
		"price_version": func(r *audit.LedgerRow) *string { return &r.PriceVersion }, "trace_id": func(r *audit.LedgerRow) *string { return &r.TraceID },
		"span_id": func(r *audit.LedgerRow) *string { return &r.SpanID }, "reverses_id": func(r *audit.LedgerRow) *string { return &r.ReversesID },
		"service_tier": func(r *audit.LedgerRow) *string { return &r.ServiceTier }, "kafka_topic": func(r *audit.LedgerRow) *string { return &r.Topic },
		"api_key_id": func(r *audit.LedgerRow) *string { return &r.APIKey },
	} {
		all = append(all, row(name, func(r *audit.LedgerRow) { *field(r) += "1" }))
	}
	for name, field := range map[string]func(*audit.LedgerRow) *int64{
		"input_tokens": func(r *audit.LedgerRow) *int64 { return &r.InputTokens }, "output_tokens": func(r *audit.LedgerRow) *int64 { return &r.OutputTokens },
		"posted_period": func(r *audit.LedgerRow) *int64 { return &r.PostedPeriod }, "kafka_offset": func(r *audit.LedgerRow) *int64 { return &r.Offset },
		"own_nanos": func(r *audit.LedgerRow) *int64 { return &r.OwnNanos }, "external_nanos": func(r *audit.LedgerRow) *int64 { return &r.ExternalNanos },
		"day": func(r *audit.LedgerRow) *int64 { return &r.Day },
	} {
		all = append(all, row(name, func(r *audit.LedgerRow) { *field(r)++ }))
	}
	return append(all,
		// One digit, the last one that the column keeps.
		row("raw_cost_usd", func(r *audit.LedgerRow) { r.RawUSD = "0.002600100000100001" }),
		row("markup_cost_usd", func(r *audit.LedgerRow) { r.BilledUSD = "0.0029" }),
		row("raw_cost_usd", func(r *audit.LedgerRow) { r.RawUSD = "" }), // unpriced is not zero and not priced
		row("markup_percent", func(r *audit.LedgerRow) { r.MarkupPercent = "12.6" }),
		row("meters", func(r *audit.LedgerRow) { r.Meters["output_tokens"] = "11" }),
		row("costs", func(r *audit.LedgerRow) { delete(r.Costs, "output_tokens") }),
		row("flags", func(r *audit.LedgerRow) { r.Flags = []string{"estimated"} }),
		row("branches", func(r *audit.LedgerRow) { r.Branches = append(r.Branches, "b9") }),
		row("depth", func(r *audit.LedgerRow) { r.Depth++ }),
		row("kafka_partition", func(r *audit.LedgerRow) { r.Partition++ }),
		row("timestamp", func(r *audit.LedgerRow) { r.Timestamp = r.Timestamp.Add(time.Nanosecond) }),
		row("recorded_at", func(r *audit.LedgerRow) { r.RecordedAt = r.RecordedAt.Add(time.Nanosecond) }),
	)
}

// day is the place of acme's day in the window table.
func day(w *world) int {
	return slices.IndexFunc(w.windows, func(r audit.WindowRow) bool {
		return r.Key.Tenant == "acme" && r.Key.Scope == "TENANT" && r.Key.Kind == "DAY"
	})
}

// scopeDay is the place of the day of one of acme's cost centres.
func scopeDay(w *world) int {
	return slices.IndexFunc(w.windows, func(r audit.WindowRow) bool { return r.Key.String() == scopeKey })
}

const scopeKey = "acme COST_CENTER sales DAY 20260315"

func spoiledWindows() []spoiling {
	const key = "acme TENANT  DAY 20260315"
	table := func(name string, change func(*audit.WindowRow)) spoiling {
		return spoiling{"window " + name, func(w *world) { change(&w.windows[day(w)]) }, "windows table", []string{key, name}}
	}
	return []spoiling{
		{"scope window deleted", func(w *world) { n := scopeDay(w); w.windows = slices.Delete(w.windows, n, n+1) }, "windows table", []string{scopeKey, "nothing"}},
		{"scope window own", func(w *world) { w.windows[scopeDay(w)].OwnNanos++ }, "windows table", []string{scopeKey, "own nano-dollars"}},
		{"scope window external", func(w *world) { w.windows[scopeDay(w)].ExternalNanos++ }, "windows table", []string{scopeKey, "external nano-dollars"}},
		{"window deleted", func(w *world) { n := day(w); w.windows = slices.Delete(w.windows, n, n+1) }, "windows table", []string{key, "nothing"}},
		{"window twice", func(w *world) { w.windows = append(w.windows, w.windows[day(w)]) }, "windows table", []string{key, "two"}},
		{"window with two contents", func(w *world) { w.conflicts = append(w.conflicts, w.windows[day(w)].Key) }, "windows table", []string{key, "one content"}},
		{"window invented", func(w *world) {
			w.windows = append(w.windows, audit.WindowRow{Key: audit.WindowKey{Tenant: "acme", Scope: "TENANT", Kind: "DAY", Window: 20260316}})
		}, "windows table", []string{"20260316", "nothing"}},
		table("own nano-dollars", func(r *audit.WindowRow) { r.OwnNanos++ }),
		table("external nano-dollars", func(r *audit.WindowRow) { r.ExternalNanos-- }),
		table("raw cost", func(r *audit.WindowRow) { r.RawUSD += "1" }),
		table("billed cost", func(r *audit.WindowRow) { r.BilledUSD += "1" }),
		table("input tokens", func(r *audit.WindowRow) { r.InputTokens++ }),
		table("output tokens", func(r *audit.WindowRow) { r.OutputTokens++ }),
		table("entries", func(r *audit.WindowRow) { r.Entries++ }),
		table("unpriced entries", func(r *audit.WindowRow) { r.Unpriced++ }),
		table("estimated entries", func(r *audit.WindowRow) { r.Estimated++ }),
		table("version", func(r *audit.WindowRow) { r.Version-- }),
		table("latest event time", func(r *audit.WindowRow) { r.Latest = r.Latest.Add(time.Nanosecond) }),
	}
}

func spoiledCounters() []spoiling {
	tenant := func(name string, change func(*audit.Counters), words ...string) spoiling {
		return spoiling{"redis " + name, func(w *world) {
			c := w.tenants["acme"]
			change(&c)
			w.tenants["acme"] = c
		}, "redis", append([]string{"tenant acme"}, words...)}
	}
	scope := func(name string, change func(*audit.Counters), words ...string) spoiling {
		return spoiling{"redis " + name, func(w *world) {
			c := w.scopes["acme cost_center sales"]
			change(&c)
			w.scopes["acme cost_center sales"] = c
		}, "redis", append([]string{"tenant acme cost_center sales"}, words...)}
	}
	root := func(name string, change func(*audit.ExecutionCounters), words ...string) spoiling {
		return spoiling{"redis " + name, func(w *world) {
			c := w.roots["acme/x1"]
			change(&c)
			w.roots["acme/x1"] = c
		}, "redis", append([]string{"tenant acme execution x1"}, words...)}
	}
	return []spoiling{
		tenant("day own", func(c *audit.Counters) { c.DayOwn++ }, "DAY 20260315 own"),
		tenant("day held", func(c *audit.Counters) { c.DayHeld++ }, "DAY 20260315 own"),
		tenant("day external", func(c *audit.Counters) { c.DayExternal-- }, "DAY 20260315 external"),
		tenant("month own", func(c *audit.Counters) { c.MonthOwn-- }, "MONTH 202603 own"),
		tenant("month external", func(c *audit.Counters) { c.MonthExternal++ }, "MONTH 202603 external"),
		tenant("gone", func(c *audit.Counters) { *c = audit.Counters{} }, "none"),
		scope("sub-scope day own", func(c *audit.Counters) { c.DayOwn++ }, "DAY 20260315 own"),
		scope("sub-scope day external", func(c *audit.Counters) { c.DayExternal++ }, "DAY 20260315 external"),
		scope("sub-scope month own", func(c *audit.Counters) { c.MonthHeld++ }, "MONTH 202603 own"),
		scope("sub-scope month external", func(c *audit.Counters) { c.MonthExternal-- }, "MONTH 202603 external"),
		scope("sub-scope gone", func(c *audit.Counters) { *c = audit.Counters{} }, "none"),
		{"redis sub-scope of nothing", func(w *world) {
			w.scopes["acme api_key k1"] = audit.Counters{Known: true, MonthOwn: 9}
		}, "redis", []string{"tenant acme api_key k1", "MONTH"}},
		{"redis branch own", func(w *world) {
			c := w.roots["acme/branch b1"]
			c.Own--
			w.roots["acme/branch b1"] = c
		}, "redis", []string{"tenant acme branch b1", "own"}},
		{"redis branch gone", func(w *world) { delete(w.roots, "acme/branch b2") }, "redis", []string{"tenant acme branch b2", "none"}},
		root("execution own", func(c *audit.ExecutionCounters) { c.Own++ }, "own"),
		root("execution external", func(c *audit.ExecutionCounters) { c.External++ }, "external"),
		root("execution gone", func(c *audit.ExecutionCounters) { *c = audit.ExecutionCounters{} }, "none"),
	}
}

// rewrite changes the settle's entry in the journal; the stores follow, so that only the journal itself is wrong.
func rewrite(change func(*weirv1.LedgerEntry)) func(*world) {
	return func(w *world) {
		e := w.entries[settled]
		change(e)
		for i, r := range w.records {
			m := new(weirv1.LedgerEntry)
			if r.Topic.Name() == topics.LedgerEntries.Name() && proto.Unmarshal(r.Value, m) == nil && m.Id == entryID("acme", "app", "settle", "usage") {
				w.records[i].Value = w.encode(e)
			}
		}
	}
}

func spoiledJournal() []spoiling {
	id := entryID("acme", "app", "settle", "usage")
	entry := func(name string, change func(*weirv1.LedgerEntry), words ...string) spoiling {
		return spoiling{"journal " + name, rewrite(change), "journal", append([]string{id}, words...)}
	}
	return []spoiling{
		entry("wrong sum", func(e *weirv1.LedgerEntry) { e.RawCostUsd = proto.String("0.0026000000002") }, "raw cost", "0.0026000000001"),
		entry("wrong bill", func(e *weirv1.LedgerEntry) { e.BilledCostUsd = proto.String("0.0029") }, "billed cost"),
		entry("wrong product", func(e *weirv1.LedgerEntry) { e.Lines[0].RawCostUsd = "0.0026" }, "input_tokens"),
		entry("wrong markup", func(e *weirv1.LedgerEntry) { e.Lines[0].BilledCostUsd = "0.0028126" }, "input_tokens", "12.5 %"),
		entry("markup of nobody", func(e *weirv1.LedgerEntry) { e.MarkupPercent = "13" }, "markup_percent"),
		entry("unknown price", func(e *weirv1.LedgerEntry) { e.PriceVersion = "pv_2" }, "price_version"),
		entry("unreadable rate", func(e *weirv1.LedgerEntry) { e.Lines[0].RateUsd = "free" }, "input_tokens rate"),
		entry("a nano-dollar too little", func(e *weirv1.LedgerEntry) { e.OwnNanos-- }, "own + external"),
		entry("wrong day", func(e *weirv1.LedgerEntry) { e.Windows.Day-- }, "day"),
		entry("wrong minute", func(e *weirv1.LedgerEntry) { e.Windows.Minute += 60 }, "minute"),
		entry("tenant of no catalog", func(e *weirv1.LedgerEntry) { e.TenantId = "nobody" }, "a tenant of the catalog"),
		entry("other event", func(e *weirv1.LedgerEntry) { e.EventId = "another" }, "its source, id and content"),
		entry("other content", func(e *weirv1.LedgerEntry) { e.ContentHash[0] ^= 1 }, "its source, id and content"),
		entry("event of nowhere", func(e *weirv1.LedgerEntry) { e.SourceOffset = 1000 }, "none in the log"),
		entry("no sub-scope", func(e *weirv1.LedgerEntry) { e.Scopes = nil }, "sub-scopes", "cost_center sales"),
		entry("one more sub-scope", func(e *weirv1.LedgerEntry) {
			e.Scopes = append(e.Scopes, &weirv1.ScopeKey{Kind: weirv1.ScopeKind_SCOPE_KIND_API_KEY, Id: "k1"})
		}, "sub-scopes", "api_key k1"),
		entry("another's sub-scope", func(e *weirv1.LedgerEntry) { e.Scopes[0].Id = "ops" }, "sub-scopes", "cost_center ops"),
		entry("too early for the shared one", func(e *weirv1.LedgerEntry) { e.Scopes[1].Id = "~" }, "sub-scopes", "agent ~"),
		{"journal reservation without its sub-scope", unsettled(func(e *weirv1.LedgerEntry) { e.Scopes = e.Scopes[:1] }), "journal", []string{"sub-scopes of its reservation", "cost_center sales"}},
		{"journal reservation in a sub-scope without ceiling", unsettled(func(e *weirv1.LedgerEntry) {
			e.Scopes[1] = &weirv1.ScopeKey{Kind: weirv1.ScopeKind_SCOPE_KIND_AGENT, Id: "lead"}
		}), "journal", []string{"by the contract", "agent lead"}},
		{"journal reservation without one of its branches", unsettled(func(e *weirv1.LedgerEntry) { e.Scopes = e.Scopes[:3] }), "journal", []string{"branches", "b1, b2"}},
		{"journal reservation in another branch", unsettled(func(e *weirv1.LedgerEntry) { e.Scopes[3].Id = "b3" }), "journal", []string{"branches", "b1, b3"}},
		entry("a branch that no token names", func(e *weirv1.LedgerEntry) {
			e.Scopes = append(e.Scopes, &weirv1.ScopeKey{Kind: weirv1.ScopeKind_SCOPE_KIND_EXECUTION_BRANCH, Id: "b1"})
		}, "branches", "which its token names", "b1"),
		{"reversal in a branch", reversal(func(e *weirv1.LedgerEntry) {
			e.Scopes = append(e.Scopes, &weirv1.ScopeKey{Kind: weirv1.ScopeKind_SCOPE_KIND_EXECUTION_BRANCH, Id: "b1"})
		}), "journal", []string{"branches", "b1"}},
		{"journal another key", unsettled(func(e *weirv1.LedgerEntry) { e.ApiKeyId, e.Scopes[0].Id = "k2", "k2" }), "journal", []string{"API key", "k1", "k2"}},
		{"journal termination in a sub-scope", of(weirv1.EntryKind_ENTRY_KIND_CIRCUIT_BREAKER_TERMINATION, func(e *weirv1.LedgerEntry) {
			e.Scopes = []*weirv1.ScopeKey{{Kind: weirv1.ScopeKind_SCOPE_KIND_COST_CENTER, Id: "sales"}}
		}), "journal", []string{"sub-scopes", "cost_center sales"}},
		{"reversal in other sub-scopes", reversal(func(e *weirv1.LedgerEntry) {
			e.Scopes = []*weirv1.ScopeKey{{Kind: weirv1.ScopeKind_SCOPE_KIND_AGENT, Id: "lead"}}
		}), "journal", []string{"sub-scopes", "agent lead"}},
		{"journal unreadable", func(w *world) {
			w.add(bus.NewRecord(topics.LedgerEntries, "acme", []byte("acme"), []byte("no message")))
		}, "journal", []string{"a LedgerEntry"}},
		{"journal entry without id", func(w *world) {
			w.write(&weirv1.LedgerEntry{TenantId: "acme", Windows: windowKeys("acme"), Lineage: &weirv1.Lineage{}})
		}, "journal", []string{"an id and a tenant"}},
		{"journal wrong partition", func(w *world) {
			for i, r := range w.records {
				if r.Topic.Name() == topics.LedgerEntries.Name() && string(r.Key) == "acme" {
					w.records[i].Partition = (r.Partition + 1) % int32(topics.LedgerEntries.Partitions())
				}
			}
		}, "journal", []string{id, "partition"}},
		{"journal same id, other content", func(w *world) {
			e := proto.Clone(w.entries[settled]).(*weirv1.LedgerEntry)
			e.InputTokens++
			w.add(bus.NewRecord(topics.LedgerEntries, "acme", []byte("acme"), w.encode(e)))
		}, "journal", []string{id, "other content"}},
		{"reversal not the negative", reversal(func(e *weirv1.LedgerEntry) { e.InputTokens++ }), "journal", []string{"input tokens", "-10", "-9"}},
		{"reversal of too much", reversal(func(e *weirv1.LedgerEntry) { e.ExternalNanos-- }), "journal", []string{"external nano-dollars", "-25000", "-25001"}},
		{"reversal with other lines", reversal(func(e *weirv1.LedgerEntry) { e.Lines[0].Meter = "output_tokens" }), "journal", []string{"lines"}},
		{"reversal of nothing", reversal(func(e *weirv1.LedgerEntry) { e.ReversesId = "e_0" }), "journal", []string{"an entry that it reverses", "e_0"}},
	}
}

// reversal changes the world's one reversal, unsettled its one UNSETTLED entry.
func reversal(change func(*weirv1.LedgerEntry)) func(*world) {
	return of(weirv1.EntryKind_ENTRY_KIND_REVERSAL, change)
}

func unsettled(change func(*weirv1.LedgerEntry)) func(*world) {
	return of(weirv1.EntryKind_ENTRY_KIND_UNSETTLED, change)
}

// of changes the world's one entry of a kind; the stores follow.
func of(kind weirv1.EntryKind, change func(*weirv1.LedgerEntry)) func(*world) {
	return func(w *world) {
		n := slices.IndexFunc(w.entries, func(e *weirv1.LedgerEntry) bool { return e.Kind == kind })
		before := w.encode(w.entries[n])
		change(w.entries[n])
		at := slices.IndexFunc(w.records, func(r bus.Record) bool { return string(r.Value) == string(before) })
		w.records[at].Value = w.encode(w.entries[n])
	}
}

func spoiledEvents() []spoiling {
	return []spoiling{
		{"event in neither", func(w *world) { w.send(event("acme", "lost")) }, "log", []string{"usage event", "lost", "neither"}},
		{"poison in neither", func(w *world) { w.add(bus.NewRecord(topics.UsageEvents, "acme", nil, []byte("{"))) }, "log", []string{"neither"}},
		{"conflict swallowed", func(w *world) {
			ev := event("acme", "settle")
			ev.Data.Model = "gpt-5"
			w.send(ev)
		}, "log", []string{"settle", "neither"}},
		{"other tenant's event is no duplicate", func(w *world) { w.send(event("beta", "settle")) }, "log", []string{"settle", "neither"}},
		{"dead letter with other bytes", func(w *world) {
			ev := event("acme", "refused")
			at, _ := w.send(ev)
			w.dead(at, []byte("other bytes"), "no_identity")
		}, "dead letters", []string{"the original bytes"}},
		{"dead letter without reason", func(w *world) {
			at, ev := w.send(event("acme", "refused"))
			w.dead(at, usageevent.Encode(ev), "")
		}, "dead letters", []string{"a reason"}},
		{"dead letter of nowhere", func(w *world) { w.add(bus.NewRecord(topics.UsageDeadletter, "k", nil, []byte("x"))) }, "dead letters", []string{"the place of its original"}},
		{"catalog unreadable", func(w *world) { w.add(bus.NewRecord(topics.CatalogTenants, "acme", []byte("acme"), []byte("x"))) }, "catalog", []string{"catalog.tenants.v1 acme"}},
	}
}

// spoiledTopic changes the window topic after the stores were made from it.
func spoiledTopic() []spoiling {
	const key = "acme TENANT  DAY 20260315"
	topic := func(name string, spoil func(*world), words ...string) spoiling {
		return spoiling{"windows topic " + name, spoil, "windows topic", words}
	}
	return []spoiling{
		topic("sub-scope, one nano-dollar", func(w *world) {
			row := w.windows[scopeDay(w)]
			row.ExternalNanos++
			w.add(windowRecord(w, row))
		}, scopeKey, "external nano-dollars"),
		topic("tombstone", func(w *world) { w.add(bus.NewRecord(topics.BudgetWindows, "acme", []byte(key), nil)) }, key, "nothing"),
		topic("a newer total with one digit", func(w *world) {
			row := w.windows[day(w)]
			row.RawUSD, row.Version = row.RawUSD+"1", row.Version+1
			w.add(windowRecord(w, row))
		}, key, "raw cost"),
		topic("same version, one nano-dollar", func(w *world) {
			row := w.windows[day(w)]
			row.OwnNanos++
			w.add(windowRecord(w, row))
		}, key, "own nano-dollars"),
		topic("unreadable", func(w *world) { w.add(bus.NewRecord(topics.BudgetWindows, "acme", []byte("x"), []byte("x"))) }, "a WindowTotal"),
		topic("second record key", func(w *world) {
			r := windowRecord(w, w.windows[day(w)])
			r.Key = []byte("another")
			w.add(r)
		}, key, "several"),
	}
}
