package budgetaggregator

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/domain/ledger"
	"github.com/weir-project/weir/pkg/domain/window"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/gen/weirv1"
)

// What of a partition's totals a recovery needs, counted back from the time of the marker: whatever a ceiling of now can
// still be about, with room for late settles, clocks and zones. Hours have no ceiling.
const (
	baseMinutes    = 10 * time.Minute
	baseDays       = 32
	baseMonths     = 3
	baseExecutions = 8 * 24 * time.Hour // admission lets a root live for 7 days, and one that was idle may go on
)

// raised is a marker that begins an epoch in this partition: its base is the totals of the entries below offset.
type raised struct {
	epoch, offset int64
	at            time.Time
}

// version is that of every record of the base.
func (m raised) version() int64 { return m.offset + 1 }

// inBase reports whether a total belongs to the base of a marker at the given time. Labels are of tenants' own zones,
// which may be a day from UTC: then there is a day or a month too many, never one too few.
func (k key) inBase(t window.Total, at time.Time) bool {
	switch k.kind {
	case weirv1.WindowKind_WINDOW_KIND_MINUTE:
		return k.window+60 > at.Add(-baseMinutes).Unix()
	case weirv1.WindowKind_WINDOW_KIND_DAY:
		y, m, d := at.UTC().AddDate(0, 0, -baseDays).Date()
		return k.window >= int64(y*10000+int(m)*100+d)
	case weirv1.WindowKind_WINDOW_KIND_MONTH:
		y, m, _ := at.UTC().AddDate(0, 0, -1).Date()
		y, m, _ = time.Date(y, m, 1, 0, 0, 0, 0, time.UTC).AddDate(0, 1-baseMonths, 0).Date()
		return k.window >= int64(y*100+int(m))
	case weirv1.WindowKind_WINDOW_KIND_EXECUTION:
		return !t.Latest.Before(at.Add(-baseExecutions))
	}
	return false
}

// baseKey is the record key of a total in a base: its usual one with the epoch behind the tenant, so that compaction
// keeps both.
//
//	tenant \0 base \0 epoch \0 what follows the tenant in the usual key
func (k key) baseKey(epoch int64) string {
	return k.tenant + "\x00base\x00" + strconv.FormatInt(epoch, 10) + k.text()[len(k.tenant):]
}

// endKey is the record key of the end of a base; it has no tenant.
func endKey(epoch int64) string { return "\x00base\x00" + strconv.FormatInt(epoch, 10) + "\x00end" }

// publishBase writes the base of a marker and, once that is acknowledged, its end. What it writes is a pure function of
// the journal below the marker: whoever repeats it, after whatever crash, writes the same but for the generation.
func (a *aggregator) publishBase(ctx context.Context, b *book, m raised) error {
	if m.epoch <= b.ended {
		return nil
	}
	totals := b.totals
	if b.highest > m.version() { // only what was folded again has gone past a marker without its base
		past, err := a.asOf(ctx, b.partition, m.offset)
		if err != nil {
			return fmt.Errorf("base of epoch %d: %w", m.epoch, err)
		}
		defer past.drop()
		totals = past.totals
	}
	records, err := baseRecords(totals, m, b.generation)
	if err != nil {
		return err
	}
	end, err := baseEnd{m, int64(len(records))}.record(b.partition, b.generation)
	if err != nil {
		return err
	}
	for part := range slices.Chunk(records, maxPublish) {
		if err := a.produce(ctx, part...); err != nil {
			return fmt.Errorf("publish base of epoch %d: %w", m.epoch, err)
		}
	}
	if err := a.produce(ctx, end); err != nil {
		return fmt.Errorf("publish end of the base of epoch %d: %w", m.epoch, err)
	}
	for _, r := range append(records, end) {
		b.bases[string(r.Key)] = m.epoch
	}
	b.ended, b.last, b.sweepDue = m.epoch, baseEnd{m, int64(len(records))}, true
	a.metrics.bases.Inc()
	a.log.Warn("base of an epoch published", "partition", b.partition, "epoch", m.epoch, "marker", m.offset, "totals", len(records))
	return nil
}

// asOf folds the journal below an offset into a book of its own, whose room the caller gives back.
func (a *aggregator) asOf(ctx context.Context, partition int32, offset int64) (*book, error) {
	past := newBook(partition, a.room, a.now)
	if _, err := a.foldFromStart(ctx, past, offset); err != nil {
		past.drop()
		return nil, err
	}
	return past, nil
}

// baseRecords are the records of a base, in the order of their keys.
func baseRecords(totals map[key]window.Total, m raised, generation int64) ([]bus.Record, error) {
	var keys []key
	for k, t := range totals {
		if k.inBase(t, m.at) {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(x, y key) int { return cmp.Compare(x.text(), y.text()) })
	out := make([]bus.Record, len(keys))
	for i, k := range keys {
		t := totals[k]
		t.Version = m.version()
		w := message(k, t, generation)
		w.BaseEpoch = m.epoch
		value, err := marshal(w)
		if err != nil {
			return nil, fmt.Errorf("base of epoch %d: total %q: %w", m.epoch, k.text(), err)
		}
		out[i] = bus.NewRecord(topics.BudgetWindows, k.tenant, []byte(k.baseKey(m.epoch)), value)
	}
	return out, nil
}

// baseEnd is the end of a base, and how many totals it has.
type baseEnd struct {
	raised
	totals int64
}

// record says that a base is complete: entries is the number of its totals, the event time that of the marker.
func (e baseEnd) record(partition int32, generation int64) (bus.Record, error) {
	value, err := marshal(&weirv1.WindowTotal{Kind: weirv1.WindowKind_WINDOW_KIND_BASE_END, Version: e.version(), Generation: generation, BaseEpoch: e.epoch,
		Entries: e.totals, LatestEventTime: timestamppb.New(e.at)})
	if err != nil {
		return bus.Record{}, fmt.Errorf("end of the base of epoch %d: %w", e.epoch, err)
	}
	r := bus.NewRecord(topics.BudgetWindows, "", []byte(endKey(e.epoch)), value)
	r.Partition = partition
	return r, nil
}

// basesRead is what a reading of the output has met of bases.
type basesRead struct {
	// keys are the record keys that are there, by epoch, and last is the end of the highest epoch.
	keys map[string]int64
	last baseEnd
	// behind are epochs of which totals stand behind the end: its acknowledgement was lost, or a dead owner began again. The
	// first records of those keys are compaction's, so that a reader would meet the end too early: it is written once more.
	behind     map[int64]bool
	generation int64
}

func newBasesRead() basesRead { return basesRead{keys: map[string]int64{}, behind: map[int64]bool{}} }

// take takes any record of the output; m is nil unless it is one of a base.
func (b *basesRead) take(key string, m *weirv1.WindowTotal) {
	if m == nil {
		delete(b.keys, key)
		return
	}
	b.keys[key] = m.GetBaseEpoch()
	b.generation = max(b.generation, m.GetGeneration())
	isEnd := m.GetKind() == weirv1.WindowKind_WINDOW_KIND_BASE_END
	if isEnd && m.GetBaseEpoch() >= b.last.epoch {
		b.last = baseEnd{raised{m.GetBaseEpoch(), m.GetVersion() - 1, latest(m.GetLatestEventTime())}, m.GetEntries()}
	}
	b.behind[m.GetBaseEpoch()] = !isEnd
}

// tidy writes the end of the last base again if it is due, and tombstones for the bases before it.
func (a *aggregator) tidy(ctx context.Context, b *book) error {
	if b.endDue {
		end, err := b.last.record(b.partition, b.generation)
		if err == nil {
			err = a.produce(ctx, end)
		}
		if err != nil {
			return fmt.Errorf("publish end of the base of epoch %d again: %w", b.ended, err)
		}
		b.endDue = false
	}
	return a.sweep(ctx, b)
}

// sweep writes tombstones for the bases before the last one that has ended. They are no part of any fold: one that is
// missed is found by the next restore or read-along.
func (a *aggregator) sweep(ctx context.Context, b *book) error {
	if !b.sweepDue {
		return nil
	}
	var old []string
	for k, epoch := range b.bases {
		if epoch < b.ended {
			old = append(old, k)
		}
	}
	if err := b.remove(ctx, a.produce, old); err != nil {
		return fmt.Errorf("remove old bases: %w", err)
	}
	maps.DeleteFunc(b.bases, func(_ string, epoch int64) bool { return epoch < b.ended })
	b.sweepDue = false
	return nil
}

// raisedBy is what a journal entry says about the base: nil for all but the marker that begins an epoch.
func raisedBy(e ledger.Entry, offset int64) *raised {
	if !e.IsMarker() || e.Marker.Phase != ledger.Raised {
		return nil
	}
	return &raised{epoch: e.Marker.Epoch, offset: offset, at: e.RecordedAt}
}

func marshal(m *weirv1.WindowTotal) ([]byte, error) {
	return proto.MarshalOptions{Deterministic: true}.Marshal(m)
}
