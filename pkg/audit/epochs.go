package audit

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/gen/weirv1"
	"github.com/weir-project/weir/pkg/usageevent"
)

// mark is a marker of the journal with the place where it stands: where an epoch of Redis begins in a partition, or where
// its barrier is (ADR 0009).
type mark struct {
	*weirv1.LedgerEntry
	at position
}

func (m mark) epoch() int64 { return m.GetMarker().GetEpoch() }

func (m mark) raises() bool {
	return m.GetMarker().GetPhase() == weirv1.EpochPhase_EPOCH_PHASE_RAISED
}

// epochs are the markers of the journal, each id once, in the order of their partitions and offsets.
type epochs struct {
	marks    []mark
	byID     map[string]int
	bySource map[position]bool
}

// addMark takes a marker. Where it repeats an earlier one, that one counts.
func (j *journal) addMark(m *weirv1.LedgerEntry, rec bus.Record, r *Report) {
	phase := map[weirv1.EpochPhase]string{weirv1.EpochPhase_EPOCH_PHASE_RAISED: usageevent.EpochRaised,
		weirv1.EpochPhase_EPOCH_PHASE_BARRIER: usageevent.EpochBarrier}[m.GetMarker().GetPhase()]
	want := fmt.Sprintf("epoch:%d:%s:%d", m.GetMarker().GetEpoch(), phase, rec.Partition)
	bare := &weirv1.LedgerEntry{Id: m.GetId(), Kind: m.GetKind(), Marker: m.GetMarker(), RecordedAt: m.GetRecordedAt(),
		SourceTopic: m.GetSourceTopic(), SourcePartition: m.GetSourcePartition(), SourceOffset: m.GetSourceOffset()}
	switch {
	case m.GetId() != want || phase == "":
		r.differ("journal", fmt.Sprintf("marker at %d/%d", rec.Partition, rec.Offset), want, m.GetId())
	case !proto.Equal(bare, m):
		r.differ("journal", m.GetId(), "a marker alone", "more than a marker says")
	case m.GetSourcePartition() != rec.Partition:
		r.differ("journal", m.GetId(), fmt.Sprintf("a source in partition %d", rec.Partition), fmt.Sprint("partition ", m.GetSourcePartition()))
	}
	if first, seen := j.epochs.byID[m.GetId()]; seen {
		if !sameEntry(j.epochs.marks[first].LedgerEntry, m) {
			r.differ("journal", m.GetId(), "the same content as at its first offset", fmt.Sprintf("other content at offset %d", rec.Offset))
		}
		return
	}
	j.epochs.byID[m.GetId()] = len(j.epochs.marks)
	j.epochs.marks = append(j.epochs.marks, mark{m, position{rec.Partition, rec.Offset}})
	j.epochs.bySource[position{m.GetSourcePartition(), m.GetSourceOffset()}] = true
	r.Markers++
}

// checkMarks wants each marker in every partition, in the order of a recovery, and every amount that the settle script
// applied between the markers of its own epoch: before the marker it is in the base, behind it nobody would add it.
func checkMarks(j *journal, r *Report) {
	in := map[string]map[int32]bool{}
	for _, m := range j.epochs.marks {
		name := strings.TrimSuffix(m.GetId(), fmt.Sprintf(":%d", m.at.partition))
		if in[name] == nil {
			in[name] = map[int32]bool{}
		}
		in[name][m.at.partition] = true
	}
	for name, partitions := range in {
		for p := range int32(topics.LedgerEntries.Partitions()) {
			if !partitions[p] {
				r.differ("journal", name, "a marker in every partition", fmt.Sprintf("none in partition %d", p))
			}
		}
	}
	marks := map[int32][]mark{}
	for p := range int32(topics.LedgerEntries.Partitions()) {
		marks[p] = j.marksOf(p)
		checkOrder(marks[p], r)
	}
	for _, e := range j.entries {
		if e.GetOwnMode() == weirv1.OwnMode_OWN_MODE_DIRECT {
			checkEpochOf(e, marks[e.at.partition], r)
		}
	}
}

func (j *journal) marksOf(partition int32) []mark {
	var out []mark
	for _, m := range j.epochs.marks {
		if m.at.partition == partition {
			out = append(out, m)
		}
	}
	return out
}

// checkOrder: epochs rise, and a barrier is of the epoch that was raised last.
func checkOrder(marks []mark, r *Report) {
	now := int64(0)
	for _, m := range marks {
		switch {
		case m.raises() && m.epoch() <= now:
			r.differ("journal", m.GetId(), fmt.Sprintf("an epoch above %d", now), "a lower one")
		case !m.raises() && m.epoch() != now:
			r.differ("journal", m.GetId(), fmt.Sprintf("a barrier of epoch %d", now), "of another one")
		}
		now = max(now, m.epoch())
	}
}

func checkEpochOf(e entry, marks []mark, r *Report) {
	before, later := int64(0), false
	for _, m := range marks {
		if m.raises() && m.at.offset < e.at.offset {
			before = m.epoch()
		}
		later = later || m.raises() && m.at.offset > e.at.offset && m.epoch() == e.GetEpoch()
	}
	if before != 0 && e.GetEpoch() != before || later {
		r.differ("journal", e.GetId(), fmt.Sprintf("an amount of the settle script only in its own epoch %d", e.GetEpoch()), fmt.Sprintf("behind the marker of epoch %d", before))
	}
}

// takeMark holds a marker among the usage events against the journal; false if it is in neither journal nor dead letters.
func (c *eventCheck) takeMark(at position, ev usageevent.Event) bool {
	if _, dead := c.dead[at]; dead { // nobody signed it
		return false
	}
	if c.epochs.bySource[at] {
		if n, ok := c.epochs.byID[ev.ID]; !ok || c.epochs.marks[n].epoch() != ev.Data.Marker.Epoch {
			c.report.differ("journal", ev.ID, fmt.Sprintf("the marker at %d/%d", at.partition, at.offset), "another one")
		}
		return true
	}
	_, known := c.epochs.byID[ev.ID]
	if known {
		c.report.Duplicates++
	}
	return known
}

// bases are the records of bases in budget.windows.v1 that are not deleted. An end has the same key in each partition.
type bases map[baseKey]*weirv1.WindowTotal

type baseKey struct {
	partition int32
	key       string
}

// checkBases recomputes the base of the last epoch in each partition: the totals of the entries before its marker that a
// ceiling could still be about then. Bases of earlier epochs must be gone.
func checkBases(j *journal, book catalogs, all bases, r *Report) {
	for p := range int32(topics.BudgetWindows.Partitions()) {
		last := mark{}
		for _, m := range j.marksOf(p) {
			if m.raises() {
				last = m
			}
		}
		got := map[WindowKey]WindowRow{}
		var end *weirv1.WindowTotal
		for at, m := range all {
			switch {
			case at.partition != p:
			case last.LedgerEntry == nil || m.GetBaseEpoch() != last.epoch():
				r.differ("windows topic", fmt.Sprintf("%q", at.key), "no base but that of the last epoch", fmt.Sprintf("one of epoch %d", m.GetBaseEpoch()))
			case m.GetKind() == weirv1.WindowKind_WINDOW_KIND_BASE_END:
				end = m
			default:
				checkBaseKey(at, m, r)
				got[windowRow(m).Key] = windowRow(m)
			}
		}
		if last.LedgerEntry == nil {
			continue
		}
		where := fmt.Sprintf("base of epoch %d", last.epoch())
		want := baseOf(j, book, last)
		compareWindows(where, want, got, r)
		if end == nil {
			r.differ(where, fmt.Sprintf("partition %d", p), "an end record", "none")
			continue
		}
		same(r, where, fmt.Sprintf("end in partition %d version", p), last.at.offset+1, end.GetVersion())
		same(r, where, fmt.Sprintf("end in partition %d totals", p), int64(len(want)), end.GetEntries())
	}
}

// checkBaseKey wants a total under the key that no other record has, in its tenant's partition.
func checkBaseKey(at baseKey, m *weirv1.WindowTotal, r *Report) {
	k := windowRow(m).Key
	parts := []string{k.Tenant, "base", strconv.FormatInt(m.GetBaseEpoch(), 10)}
	switch k.Scope {
	case "TENANT":
		parts = append(parts, strings.ToLower(k.Kind), strconv.FormatInt(k.Window, 10))
	case "EXECUTION", branchColumn:
		parts = append(parts, strings.ToLower(k.Scope), k.ScopeID)
	default:
		parts = append(parts, strings.ToLower(k.Scope), k.ScopeID, strings.ToLower(k.Kind), strconv.FormatInt(k.Window, 10))
	}
	if want := strings.Join(parts, "\x00"); at.key != want {
		r.differ("windows topic", "base total "+k.String(), fmt.Sprintf("key %q", want), fmt.Sprintf("%q", at.key))
	}
	if home := bus.PartitionFor([]byte(k.Tenant), topics.BudgetWindows.Partitions()); home != at.partition {
		r.differ("windows topic", "base total "+k.String(), fmt.Sprintf("partition %d", home), fmt.Sprintf("partition %d", at.partition))
	}
}

// baseOf folds what stands before a marker, and keeps what its base has: minutes of the last 10 minutes, days of 32 days,
// months of 3, executions of 8 days, all before the time of the marker. Each total has the marker's version.
func baseOf(j *journal, book catalogs, m mark) map[WindowKey]*total {
	before := &journal{entries: slices.DeleteFunc(slices.Clone(j.entries), func(e entry) bool {
		return e.at.partition != m.at.partition || e.at.offset > m.at.offset
	})}
	out := foldWindows(before, book)
	at := m.GetRecordedAt().AsTime()
	for k, t := range out {
		if !counts(k, t, at) {
			delete(out, k)
		}
		t.version = m.at.offset + 1
	}
	return out
}

func counts(k WindowKey, t *total, at time.Time) bool {
	switch k.Kind {
	case "MINUTE":
		return time.Unix(k.Window, 0).Add(time.Minute).After(at.Add(-10 * time.Minute).Truncate(time.Second))
	case "DAY":
		day, _ := labels(at.AddDate(0, 0, -32), time.UTC)
		return k.Window >= day
	case "MONTH":
		yesterday := at.AddDate(0, 0, -1)
		_, month := labels(yesterday.AddDate(0, 0, 1-yesterday.Day()).AddDate(0, -2, 0), time.UTC)
		return k.Window >= month
	case "EXECUTION":
		return !t.latest.Before(at.Add(-8 * 24 * time.Hour))
	}
	return false
}
