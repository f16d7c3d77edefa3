package audit_test

import (
	"fmt"
	"slices"
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

// mark writes a marker's event and its journal entry into one partition. after is how long after the usage it was
// recorded.
func (w *world) mark(partition int32, epoch int64, phase string, after time.Duration, change func(*weirv1.LedgerEntry)) int64 {
	ev := usageevent.MarkerEvent(usageevent.Marker{Epoch: epoch, Phase: phase, Partition: partition})
	r := bus.NewRecord(topics.UsageEvents, ev.ID, []byte(ev.ID), usageevent.Encode(ev))
	r.Partition = partition
	e := &weirv1.LedgerEntry{Id: ev.ID, Kind: weirv1.EntryKind_ENTRY_KIND_EPOCH_MARKER, RecordedAt: timestamppb.New(eventTime().Add(after)),
		SourceTopic: topics.UsageEvents.Name(), SourcePartition: partition, SourceOffset: w.add(r),
		Marker: &weirv1.EpochMarker{Epoch: epoch, Phase: weirv1.EpochPhase_EPOCH_PHASE_RAISED}}
	if phase == usageevent.EpochBarrier {
		e.Marker.Phase = weirv1.EpochPhase_EPOCH_PHASE_BARRIER
	}
	if change != nil {
		change(e)
	}
	j := bus.NewRecord(topics.LedgerEntries, ev.ID, []byte(ev.ID), w.encode(e))
	j.Partition = partition
	return w.add(j)
}

// recovery is a world in which epoch 9 was raised after everything that small has, and what its spoilings touch.
type recovery struct {
	*world
	after time.Duration
	// marks are journal offsets of the markers that raise, by partition.
	marks map[int32]int64
	// base are the records of the base, ends last, before they are written.
	base []*weirv1.WindowTotal
}

// recovered makes such a world: markers, a settle behind them, totals, and the base as the aggregator writes it. before may
// write to the journal first, spoil may change the base.
func recovered(t *testing.T, after time.Duration, before func(*recovery), spoil func(*recovery)) *world {
	t.Helper()
	r := &recovery{after: after, marks: map[int32]int64{}}
	var old *world
	small(t, func(w *world) {
		r.world = w
		old = &world{t: t, next: map[string]int64{}, offsets: w.offsets, tenants: map[string]audit.Counters{}, roots: map[string]audit.ExecutionCounters{}, scopes: map[string]audit.Counters{}}
		old.entries = slices.Clone(w.entries)
		if before != nil {
			before(r)
		} else {
			r.raise(nil)
		}
		late := event("acme", "behind")
		at, late := w.send(late)
		w.book(at, late, 25_000, 0, func(e *weirv1.LedgerEntry) { e.OwnMode, e.Epoch = weirv1.OwnMode_OWN_MODE_DIRECT, 9 }, line{"input_tokens", "10", "0.0000025"})
	})
	old.derive()
	counts := map[int32]int64{}
	for _, row := range old.windows {
		m := new(weirv1.WindowTotal)
		if row.Key.Kind == "HOUR" || row.Key.Kind == "MINUTE" && after > 11*time.Minute || row.Key.Kind == "DAY" && after > 33*24*time.Hour ||
			row.Key.Kind == "EXECUTION" && after > 8*24*time.Hour {
			continue
		}
		must(m, proto.Unmarshal(windowRecord(old, row).Value, m))(t)
		p := bus.PartitionFor([]byte(m.TenantId), topics.BudgetWindows.Partitions())
		m.BaseEpoch, m.Version = 9, r.marks[p]+1
		counts[p]++
		r.base = append(r.base, m)
	}
	for p := range int32(topics.BudgetWindows.Partitions()) {
		r.base = append(r.base, &weirv1.WindowTotal{Kind: weirv1.WindowKind_WINDOW_KIND_BASE_END, BaseEpoch: 9, Version: r.marks[p] + 1, Entries: counts[p], Window: int64(p)})
	}
	if spoil != nil {
		spoil(r)
	}
	for _, m := range r.base {
		r.add(r.baseRecord(m))
	}
	return r.world
}

// raise writes both markers of epoch 9 into each partition; skip names one that gets none.
func (r *recovery) raise(change func(*weirv1.LedgerEntry), skip ...int32) {
	for p := range int32(topics.LedgerEntries.Partitions()) {
		if slices.Contains(skip, p) {
			continue
		}
		r.marks[p] = r.mark(p, 9, usageevent.EpochRaised, r.after, change)
		r.mark(p, 9, usageevent.EpochBarrier, r.after, nil)
	}
}

// baseRecord is a record of a base under its key. Of an end the test keeps the partition in Window.
func (r *recovery) baseRecord(m *weirv1.WindowTotal) bus.Record {
	if m.Kind == weirv1.WindowKind_WINDOW_KIND_BASE_END {
		end := bus.NewRecord(topics.BudgetWindows, "", []byte(fmt.Sprintf("\x00base\x00%d\x00end", m.BaseEpoch)), nil)
		end.Partition, m.Window = int32(m.Window), 0
		end.Value = r.encode(m)
		return end
	}
	scope := strings.ToLower(strings.TrimPrefix(m.ScopeKind.String(), "SCOPE_KIND_"))
	kind := strings.ToLower(strings.TrimPrefix(m.Kind.String(), "WINDOW_KIND_"))
	rest := map[string]string{"tenant": fmt.Sprintf("%s\x00%d", kind, m.Window), "execution": "execution\x00" + m.ScopeId,
		"execution_branch": "execution_branch\x00" + m.ScopeId}[scope]
	if rest == "" {
		rest = fmt.Sprintf("%s\x00%s\x00%s\x00%d", scope, m.ScopeId, kind, m.Window)
	}
	return bus.NewRecord(topics.BudgetWindows, m.TenantId, []byte(fmt.Sprintf("%s\x00base\x00%d\x00%s", m.TenantId, m.BaseEpoch, rest)), r.encode(m))
}

// Goal: markers and the base of a recovery are no difference, whenever the marker was recorded: what is too old for a
// ceiling is not in the base.
func TestCleanRecovery(t *testing.T) {
	for _, after := range []time.Duration{time.Second, 12 * time.Minute, 7 * 24 * time.Hour, 9 * 24 * time.Hour, 34 * 24 * time.Hour} {
		r := recovered(t, after, nil, nil).run()
		if !r.OK || r.Markers != int64(2*topics.LedgerEntries.Partitions()) {
			t.Errorf("%s: %d markers, %+v", after, r.Markers, r.Differences)
		}
	}
}

// Goal: every way in which a marker or a base can be wrong is named.
func TestSpoiledRecovery(t *testing.T) {
	home := bus.PartitionFor([]byte("acme"), topics.LedgerEntries.Partitions())
	other := (home + 1) % int32(topics.LedgerEntries.Partitions())
	total := func(r *recovery) *weirv1.WindowTotal {
		return r.base[slices.IndexFunc(r.base, func(m *weirv1.WindowTotal) bool {
			return m.TenantId == "acme" && m.ScopeKind == weirv1.ScopeKind_SCOPE_KIND_TENANT && m.Kind == weirv1.WindowKind_WINDOW_KIND_DAY
		})]
	}
	end := func(r *recovery) int {
		return slices.IndexFunc(r.base, func(m *weirv1.WindowTotal) bool {
			return m.Kind == weirv1.WindowKind_WINDOW_KIND_BASE_END && m.Window == int64(home)
		})
	}
	for _, c := range []struct {
		name, where string
		before      func(*recovery)
		spoil       func(*recovery)
		words       []string
	}{
		{"a marker is missing", "journal", func(r *recovery) { r.raise(nil, other) }, nil, []string{"epoch:9:raised", fmt.Sprintf("none in partition %d", other)}},
		{"a marker with a tenant", "journal", func(r *recovery) { r.raise(func(e *weirv1.LedgerEntry) { e.TenantId = "acme" }) }, nil, []string{"epoch:9:raised", "a marker alone"}},
		{"a marker of another partition", "journal", func(r *recovery) { r.raise(func(e *weirv1.LedgerEntry) { e.SourcePartition++ }) }, nil, []string{"epoch:9:raised", "a source in partition"}},
		{"another id", "journal", func(r *recovery) { r.raise(func(e *weirv1.LedgerEntry) { e.Id += "0" }) }, nil, []string{"marker at", "epoch:9:raised"}},
		{"a lower epoch", "journal", func(r *recovery) { r.raise(nil); r.mark(home, 8, usageevent.EpochRaised, 0, nil) }, nil, []string{"epoch:8:raised", "an epoch above 9"}},
		{"a barrier of another epoch", "journal", func(r *recovery) { r.raise(nil); r.mark(home, 8, usageevent.EpochBarrier, 0, nil) }, nil, []string{"epoch:8:barrier", "a barrier of epoch 9"}},
		{"a script's amount behind the marker", "journal", func(r *recovery) {
			r.raise(nil)
			at, ev := r.send(event("acme", "astray"))
			r.book(at, ev, 25_000, 0, func(e *weirv1.LedgerEntry) { e.OwnMode, e.Epoch = weirv1.OwnMode_OWN_MODE_DIRECT, 7 }, line{"input_tokens", "10", "0.0000025"})
		}, nil, []string{"own epoch 7", "epoch 9"}},
		{"a marker that the journal lacks", "log", func(r *recovery) {
			r.raise(nil)
			ev := usageevent.MarkerEvent(usageevent.Marker{Epoch: 10, Phase: usageevent.EpochRaised, Partition: home})
			rec := bus.NewRecord(topics.UsageEvents, ev.ID, []byte(ev.ID), usageevent.Encode(ev))
			rec.Partition = home
			r.add(rec)
		}, nil, []string{"epoch:10:raised", "neither"}},
		{"own", "base of epoch 9", nil, func(r *recovery) { total(r).OwnNanos++ }, []string{"acme TENANT  DAY 20260315 own nano-dollars"}},
		{"external", "base of epoch 9", nil, func(r *recovery) { total(r).ExternalNanos-- }, []string{"acme TENANT  DAY 20260315 external nano-dollars"}},
		{"a total of now", "base of epoch 9", nil, func(r *recovery) { total(r).Entries++ }, []string{"acme TENANT  DAY 20260315 entries"}},
		{"version", "base of epoch 9", nil, func(r *recovery) { total(r).Version++ }, []string{"acme TENANT  DAY 20260315 version"}},
		{"a total is missing", "base of epoch 9", nil, func(r *recovery) { r.base = r.base[1:] }, []string{"nothing"}},
		{"a window too much", "base of epoch 9", nil, func(r *recovery) { total(r).Window = 20260316 }, []string{"20260316", "nothing: the journal"}},
		{"another tenant's", "windows topic", nil, func(r *recovery) {
			m := r.baseRecord(total(r))
			m.Partition = other
			r.add(m)
		}, []string{"base total acme", fmt.Sprintf("partition %d", home)}},
		{"another key", "windows topic", nil, func(r *recovery) {
			m := r.baseRecord(total(r))
			m.Key = append(m.Key, '0')
			r.add(m)
		}, []string{"base total acme", "key"}},
		{"no end", "base of epoch 9", nil, func(r *recovery) { n := end(r); r.base = slices.Delete(r.base, n, n+1) }, []string{"an end record", "none"}},
		{"the end's version", "base of epoch 9", nil, func(r *recovery) { r.base[end(r)].Version++ }, []string{"end in partition", "version"}},
		{"the end's number", "base of epoch 9", nil, func(r *recovery) { r.base[end(r)].Entries-- }, []string{"end in partition", "totals"}},
		{"an old base is left", "windows topic", nil, func(r *recovery) {
			r.base = append(r.base, &weirv1.WindowTotal{TenantId: "acme", Kind: weirv1.WindowKind_WINDOW_KIND_DAY, ScopeKind: weirv1.ScopeKind_SCOPE_KIND_TENANT, BaseEpoch: 8, Version: 1})
		}, []string{"no base but that of the last epoch", "one of epoch 8"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := recovered(t, time.Second, c.before, c.spoil).run()
			if !slices.ContainsFunc(r.Differences, func(d audit.Difference) bool {
				return d.Where == c.where && !slices.ContainsFunc(c.words, func(word string) bool { return !strings.Contains(d.String(), word) })
			}) {
				t.Errorf("want %s: %q among %+v", c.where, c.words, r.Differences)
			}
		})
	}
}

// Goal: an unsigned marker in the dead letters is no difference, and neither is one that the relay or the attributor wrote
// twice.
func TestMarkersThatAreNone(t *testing.T) {
	r := recovered(t, time.Second, func(r *recovery) {
		r.raise(nil)
		ev := usageevent.MarkerEvent(usageevent.Marker{Epoch: 9, Phase: usageevent.EpochRaised, Partition: 0})
		forged := bus.NewRecord(topics.UsageEvents, ev.ID, []byte(ev.ID), usageevent.Encode(ev))
		forged.Partition = 0
		r.dead(place{0, r.add(forged)}, forged.Value, "no_identity")
		r.mark(0, 9, usageevent.EpochRaised, r.after, nil)
	}, nil).run()
	if !r.OK || r.Duplicates == 0 {
		t.Errorf("%d duplicates, %+v", r.Duplicates, r.Differences)
	}
}
