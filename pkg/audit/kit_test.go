package audit_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/weir-project/weir/pkg/audit"
	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/gen/weirv1"
	"github.com/weir-project/weir/pkg/testkit"
	"github.com/weir-project/weir/pkg/usageevent"
)

// The world's clock: all usage is of one minute, shortly after midnight in Budapest, which is another day in UTC.
func now() time.Time       { return time.Date(2026, 3, 14, 23, 40, 30, 0, time.UTC) }
func eventTime() time.Time { return time.Date(2026, 3, 14, 23, 30, 5, 7, time.UTC) }

// world is a whole small Weir in memory: what stands in the log, in ClickHouse and in Redis.
type world struct {
	t       *testing.T
	records []bus.Record // all topics, in order of writing
	entries []*weirv1.LedgerEntry
	offsets map[*weirv1.LedgerEntry]int64
	next    map[string]int64 // topic/partition -> next offset
	rows    []audit.LedgerRow
	windows []audit.WindowRow
	// conflicts are windows with two contents of one version.
	conflicts []audit.WindowKey
	tenants   map[string]audit.Counters
	roots     map[string]audit.ExecutionCounters // tenant/root
	scopes    map[string]audit.Counters          // "tenant kind id"
}

// Books and Budgets as the auditor asks them.
func (w *world) LedgerRows(_ context.Context, fn func(audit.LedgerRow) error) error {
	for _, r := range w.rows {
		if err := fn(r); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) Windows(_ context.Context, fn func(audit.WindowRow) error) error {
	for _, r := range w.windows {
		if err := fn(r); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) WindowConflicts(_ context.Context, fn func(audit.WindowKey, int64) error) error {
	for _, k := range w.conflicts {
		if err := fn(k, 2); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) Tenant(_ context.Context, tenant string, _ *time.Location) (audit.Counters, error) {
	return w.tenants[tenant], nil
}

func (w *world) Scope(_ context.Context, tenant, kind, id string, _ *time.Location) (audit.Counters, error) {
	return w.scopes[tenant+" "+kind+" "+id], nil
}

func (w *world) Execution(_ context.Context, tenant, root string) (audit.ExecutionCounters, error) {
	return w.roots[tenant+"/"+root], nil
}

func (w *world) Branch(_ context.Context, tenant, id string) (audit.ExecutionCounters, error) {
	return w.roots[tenant+"/branch "+id], nil
}

// add writes a record at the end of its partition and returns its offset.
func (w *world) add(r bus.Record) int64 {
	at := fmt.Sprintf("%s/%d", r.Topic.Name(), r.Partition)
	r.Offset = w.next[at]
	w.next[at]++
	r.Timestamp = eventTime().Add(time.Second)
	w.records = append(w.records, r)
	return r.Offset
}

// place is where a record went.
type place struct {
	partition int32
	offset    int64
}

// send writes a usage event as a producer would, to its tenant's partition or to the one given.
func (w *world) send(ev usageevent.Event, partition ...int32) (place, usageevent.Event) {
	r := bus.NewRecord(topics.UsageEvents, ev.Subject, []byte(ev.Subject), usageevent.Encode(ev))
	if len(partition) > 0 {
		r.Partition = partition[0]
	}
	return place{r.Partition, w.add(r)}, ev
}

func event(tenant, id string) usageevent.Event {
	return usageevent.Event{
		ID: id, Source: "app", Type: usageevent.TypeUsage, Subject: tenant, Time: eventTime(),
		Data: usageevent.Data{Provider: "openai", Model: "gpt-4o", RootExecutionID: "x1", AgentID: "lead", CostCenter: "sales"},
	}
}

// line is a meter of an entry.
type line struct{ meter, quantity, rate string }

// book writes the journal entry of an event: own and external are nano-dollars; no lines with a rate means unpriced.
func (w *world) book(at place, ev usageevent.Event, own, external int64, change func(*weirv1.LedgerEntry), lines ...line) *weirv1.LedgerEntry {
	hash, markup := usageevent.ContentHash(ev), map[string]string{"acme": "12.5"}[ev.Subject]
	e := &weirv1.LedgerEntry{
		Id: entryID(ev.Subject, ev.Source, ev.ID, "usage"), Kind: weirv1.EntryKind_ENTRY_KIND_USAGE, TenantId: ev.Subject,
		EventTime: timestamppb.New(eventTime()), RecordedAt: timestamppb.New(eventTime().Add(time.Second)),
		Source: ev.Source, EventId: ev.ID, ResponseId: ev.Data.ResponseID, ContentHash: hash[:],
		Provider: ev.Data.Provider, Model: ev.Data.Model, Status: weirv1.CallStatus_CALL_STATUS_SUCCESS, PriceVersion: "pv_1", MarkupPercent: markup,
		Lineage: &weirv1.Lineage{
			RootExecutionId: ev.Data.RootExecutionID, ParentAgentId: ev.Data.ParentAgentID, AgentId: ev.Data.AgentID,
			CostCenter: ev.Data.CostCenter, Depth: 1, TraceId: "4bf92f3577b34da6a3ce929d0e0e4736", SpanId: "00f067aa0ba902b7",
		},
		Windows: windowKeys(ev.Subject), PostedPeriod: windowKeys(ev.Subject).Month, ReservationId: ev.Data.ReservationID,
		OwnNanos: own, ExternalNanos: external, SourceTopic: topics.UsageEvents.Name(), SourcePartition: at.partition, SourceOffset: at.offset,
	}
	if ev.Subject == "acme" { // sales has a ceiling, so has each agent but lead
		e.Scopes = []*weirv1.ScopeKey{{Kind: weirv1.ScopeKind_SCOPE_KIND_COST_CENTER, Id: "sales"}}
		if agent := ev.Data.AgentID; agent != "lead" {
			e.Scopes = append(e.Scopes, &weirv1.ScopeKey{Kind: weirv1.ScopeKind_SCOPE_KIND_AGENT, Id: agent})
		}
	}
	w.price(e, lines)
	if change != nil {
		change(e)
	}
	w.write(e)
	return e
}

func entryID(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return "e_" + hex.EncodeToString(sum[:16])
}

// windowKeys are written out: the auditor has to find the same.
func windowKeys(tenant string) *weirv1.WindowKeys {
	if tenant == "acme" { // Europe/Budapest: 15 March, 00:30
		return &weirv1.WindowKeys{Minute: 1773531000, Hour: 1773529200, Day: 20260315, Month: 202603}
	}
	return &weirv1.WindowKeys{Minute: 1773531000, Hour: 1773529200, Day: 20260314, Month: 202603}
}

func (w *world) price(e *weirv1.LedgerEntry, lines []line) {
	var raw, billed money.USD
	priced := false
	percent := must(money.ParsePercent(cmp0(e.MarkupPercent)))(w.t)
	for _, l := range lines {
		m := &weirv1.MeterLine{Meter: l.meter, Quantity: l.quantity}
		quantity := must(money.ParseDecimal(l.quantity))(w.t)
		if l.rate != "" {
			cost := money.Price(quantity, must(money.ParseDecimal(l.rate))(w.t))
			bill := money.ApplyMarkup(cost, percent)
			m.RateUsd, m.RawCostUsd, m.BilledCostUsd, priced = l.rate, cost.String(), bill.String(), true
			raw, billed = raw.Add(cost), billed.Add(bill)
		}
		n, _ := quantity.Int64()
		if strings.HasPrefix(l.meter, "input") {
			e.InputTokens += n
		} else {
			e.OutputTokens += n
		}
		e.Lines = append(e.Lines, m)
	}
	if priced || len(lines) == 0 {
		e.RawCostUsd, e.BilledCostUsd = proto.String(raw.String()), proto.String(billed.String())
	}
}

// reverse writes the negative of an entry, because of an event.
func (w *world) reverse(o *weirv1.LedgerEntry, at place, ev usageevent.Event) *weirv1.LedgerEntry {
	e := proto.Clone(o).(*weirv1.LedgerEntry)
	hash := usageevent.ContentHash(ev)
	e.Id, e.Kind, e.ReversesId = entryID(ev.Subject, ev.Source, ev.ID, "reversal"), weirv1.EntryKind_ENTRY_KIND_REVERSAL, o.Id
	e.Source, e.EventId, e.ContentHash, e.SourcePartition, e.SourceOffset = ev.Source, ev.ID, hash[:], at.partition, at.offset
	e.InputTokens, e.OutputTokens = -o.InputTokens, -o.OutputTokens
	e.OwnNanos, e.ExternalNanos = 0, -(o.OwnNanos + o.ExternalNanos)
	e.RawCostUsd, e.BilledCostUsd = proto.String(negative(*o.RawCostUsd)), proto.String(negative(*o.BilledCostUsd))
	for _, l := range e.Lines {
		l.Quantity, l.RawCostUsd, l.BilledCostUsd = negative(l.Quantity), negative(l.RawCostUsd), negative(l.BilledCostUsd)
	}
	w.write(e)
	return e
}

func negative(s string) string {
	if rest, ok := strings.CutPrefix(s, "-"); ok || s == "0" {
		return rest + strings.Repeat("0", map[bool]int{true: 1}[s == "0"])
	}
	return "-" + s
}

// write appends an entry to the journal.
func (w *world) write(e *weirv1.LedgerEntry) int64 {
	w.entries = append(w.entries, e)
	w.offsets[e] = w.add(bus.NewRecord(topics.LedgerEntries, e.TenantId, []byte(e.TenantId), w.encode(e)))
	return w.offsets[e]
}

func (w *world) encode(m proto.Message) []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		w.t.Fatal(err)
	}
	return b
}

// dead writes a dead letter of what stands at a place.
func (w *world) dead(at place, value []byte, reason string) {
	headers := []bus.Header{
		{Key: "weir-dlq-reason", Value: []byte(reason)}, {Key: "weir-dlq-partition", Value: fmt.Append(nil, at.partition)},
		{Key: "weir-dlq-offset", Value: fmt.Append(nil, at.offset)},
	}
	w.add(bus.NewRecord(topics.UsageDeadletter, "k", []byte("k"), value, headers...))
}

// run plays the log into a broker and audits it.
func (w *world) run() audit.Report {
	w.t.Helper()
	conn := connect(w.t)
	w.play(conn)
	return w.audit(conn)
}

func (w *world) audit(conn *bus.Conn) audit.Report {
	w.t.Helper()
	r, err := audit.Run(w.t.Context(), audit.Sources{Log: conn, Books: w, Budgets: w, Now: now()})
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func connect(t *testing.T) *bus.Conn {
	t.Helper()
	address := must(bus.ParseAddress(testkit.Kafka(t)))(t)
	conn := must(bus.Connect(bus.Options{
		Address: address, ClientID: "test", Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), Now: now,
	}))(t)
	admin := must(conn.Admin())(t)
	defer admin.Close()
	if err := admin.EnsureTopics(t.Context(), topics.All, 1); err != nil {
		t.Fatal(err)
	}
	return conn
}

func (w *world) play(conn *bus.Conn) {
	w.t.Helper()
	producer := must(conn.Producer(bus.ProducerConfig{}, topics.All...))(w.t)
	defer producer.Close(context.WithoutCancel(w.t.Context()))
	if err := producer.Produce(w.t.Context(), w.records...); err != nil {
		w.t.Fatal(err)
	}
}

// must unwraps a result in a test.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func cmp0(s string) string {
	if s == "" {
		return "0"
	}
	return s
}

// derive makes ledger, windows and counters from the journal as the services would.
func (w *world) derive() {
	type key = audit.WindowKey
	totals := map[key]audit.WindowRow{}
	for _, e := range w.entries {
		p, offset := bus.PartitionFor([]byte(e.TenantId), topics.LedgerEntries.Partitions()), w.offsets[e]
		w.rows = append(w.rows, ledgerRow(e, p, offset))
		k := e.Windows
		keys := []key{
			{Tenant: e.TenantId, Scope: "TENANT", Kind: "MINUTE", Window: k.Minute}, {Tenant: e.TenantId, Scope: "TENANT", Kind: "HOUR", Window: k.Hour},
			{Tenant: e.TenantId, Scope: "TENANT", Kind: "DAY", Window: int64(k.Day)}, {Tenant: e.TenantId, Scope: "TENANT", Kind: "MONTH", Window: int64(k.Month)},
		}
		for _, s := range e.Scopes {
			if s.Kind == weirv1.ScopeKind_SCOPE_KIND_EXECUTION_BRANCH {
				keys = append(keys, key{Tenant: e.TenantId, Scope: "EXECUTION_BRANCH", ScopeID: s.Id, Kind: "EXECUTION"})
				continue
			}
			for _, of := range []key{keys[0], keys[2], keys[3]} {
				of.Scope, of.ScopeID = strings.TrimPrefix(s.Kind.String(), "SCOPE_KIND_"), s.Id
				keys = append(keys, of)
			}
		}
		if root := e.GetLineage().GetRootExecutionId(); root != "" {
			keys = append(keys, key{Tenant: e.TenantId, Scope: "EXECUTION", ScopeID: root, Kind: "EXECUTION"})
		}
		for _, k := range keys {
			totals[k] = w.fold(totals[k], k, e, offset)
		}
	}
	w.windows = slices.Collect(maps.Values(totals))
	for _, row := range w.windows {
		w.add(windowRecord(w, row))
		w.count(row)
	}
}

func (w *world) fold(t audit.WindowRow, k audit.WindowKey, e *weirv1.LedgerEntry, offset int64) audit.WindowRow {
	sign := int64(1)
	if e.Kind == weirv1.EntryKind_ENTRY_KIND_REVERSAL {
		sign = -1
	}
	t.Key, t.Version, t.Entries, t.Latest, t.MaxDepth = k, offset+1, t.Entries+1, e.EventTime.AsTime(), 1
	t.OwnNanos, t.ExternalNanos = t.OwnNanos+e.OwnNanos, t.ExternalNanos+e.ExternalNanos
	t.InputTokens, t.OutputTokens = t.InputTokens+e.InputTokens, t.OutputTokens+e.OutputTokens
	if e.RawCostUsd == nil {
		t.Unpriced += sign
	}
	if slices.Contains(e.Flags, "estimated") {
		t.Estimated += sign
	}
	for _, sum := range []struct {
		to   *string
		more *string
	}{{&t.RawUSD, e.RawCostUsd}, {&t.BilledUSD, e.BilledCostUsd}} {
		total := must(money.ParseUSD(cmp0(*sum.to)))(w.t)
		if sum.more != nil {
			total = total.Add(must(money.ParseUSD(*sum.more))(w.t))
		}
		*sum.to = total.String()
	}
	return t
}

// count sets the Redis counters of a window. Five nano-dollars more are held: open holds are no difference.
func (w *world) count(row audit.WindowRow) {
	day := func(c *audit.Counters) {
		c.Known, c.DayLabel, c.DayOwn, c.DayHeld, c.DayExternal = true, int32(row.Key.Window), row.OwnNanos+5, 5, row.ExternalNanos
	}
	month := func(c *audit.Counters) {
		c.Known, c.MonthLabel, c.MonthOwn, c.MonthHeld, c.MonthExternal = true, int32(row.Key.Window), row.OwnNanos+5, 5, row.ExternalNanos
	}
	at, all := row.Key.Tenant, w.tenants
	if row.Key.Scope != "TENANT" && row.Key.Kind != "EXECUTION" {
		at, all = row.Key.Tenant+" "+strings.ToLower(row.Key.Scope)+" "+row.Key.ScopeID, w.scopes
	}
	c := all[at]
	switch row.Key.Kind {
	case "DAY":
		day(&c)
	case "MONTH":
		month(&c)
	case "EXECUTION":
		name := row.Key.ScopeID
		if row.Key.Scope == "EXECUTION_BRANCH" {
			name = "branch " + name
		}
		w.roots[row.Key.Tenant+"/"+name] = audit.ExecutionCounters{Exists: true, Known: true, Own: row.OwnNanos + 5, Held: 5, External: row.ExternalNanos}
	}
	c.Known = true
	all[at] = c
}

func windowRecord(w *world, row audit.WindowRow) bus.Record {
	m := &weirv1.WindowTotal{
		TenantId: row.Key.Tenant, ScopeId: row.Key.ScopeID, Window: row.Key.Window, Version: row.Version, OwnNanos: row.OwnNanos, ExternalNanos: row.ExternalNanos,
		ScopeKind: weirv1.ScopeKind(weirv1.ScopeKind_value["SCOPE_KIND_"+row.Key.Scope]), Kind: weirv1.WindowKind(weirv1.WindowKind_value["WINDOW_KIND_"+row.Key.Kind]),
		RawCostUsd: row.RawUSD, BilledCostUsd: row.BilledUSD, InputTokens: row.InputTokens, OutputTokens: row.OutputTokens, Entries: row.Entries,
		UnpricedEntries: row.Unpriced, EstimatedEntries: row.Estimated, MaxDepth: int32(row.MaxDepth), LatestEventTime: timestamppb.New(row.Latest),
	}
	return bus.NewRecord(topics.BudgetWindows, row.Key.Tenant, []byte(row.Key.String()), w.encode(m))
}

func ledgerRow(e *weirv1.LedgerEntry, partition int32, offset int64) audit.LedgerRow {
	l := e.Lineage
	row := audit.LedgerRow{
		ID: e.Id, TenantID: e.TenantId, Root: l.RootExecutionId, Parent: l.ParentAgentId, Agent: l.AgentId, CostCenter: l.CostCenter,
		Provider: e.Provider, Model: e.Model, Status: strings.TrimPrefix(e.Status.String(), "CALL_STATUS_"), ErrorCode: e.ErrorCode,
		Kind: strings.TrimPrefix(e.Kind.String(), "ENTRY_KIND_"), Source: e.Source, EventID: e.EventId, ResponseID: e.ResponseId,
		Reservation: e.ReservationId, PriceVersion: e.PriceVersion, MarkupPercent: cmp0(e.MarkupPercent), RawUSD: padded(e.RawCostUsd),
		BilledUSD: padded(e.BilledCostUsd), InputTokens: e.InputTokens, OutputTokens: e.OutputTokens, PostedPeriod: int64(e.PostedPeriod),
		Offset: offset, Partition: partition, Depth: l.Depth, TraceID: l.TraceId, SpanID: l.SpanId, ReversesID: e.ReversesId, ServiceTier: e.ServiceTier,
		Topic: topics.LedgerEntries.Name(), OwnNanos: e.OwnNanos, ExternalNanos: e.ExternalNanos, Day: int64(e.Windows.Day),
		Timestamp: e.EventTime.AsTime(), RecordedAt: e.RecordedAt.AsTime(), APIKey: e.ApiKeyId, Meters: map[string]string{}, Costs: map[string]string{}, Flags: e.Flags, Layout: 1,
	}
	for _, k := range e.Scopes {
		if k.Kind == weirv1.ScopeKind_SCOPE_KIND_EXECUTION_BRANCH {
			row.Branches = append(row.Branches, k.Id)
		}
	}
	if row.Status == "UNSPECIFIED" {
		row.Status = ""
	}
	for _, m := range e.Lines {
		row.Meters[m.Meter] = m.Quantity
		if m.RawCostUsd != "" {
			row.Costs[m.Meter] = m.RawCostUsd
		}
	}
	return row
}

// padded is a cost as a database with a fixed scale may print it.
func padded(s *string) string {
	if s == nil {
		return ""
	}
	if strings.Contains(*s, ".") {
		return *s + "00"
	}
	return *s + ".00"
}
