package audit

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/gen/weirv1"
)

// position is a place in a topic.
type position struct {
	partition int32
	offset    int64
}

// entry is a journal entry with the place where it stands.
type entry struct {
	*weirv1.LedgerEntry
	at position
}

// identity is what makes a usage event one.
type identity struct{ tenant, source, id string }

// journal is everything that ledger.entries.v1 says, each id once: the first one counts (I3).
type journal struct {
	entries     []entry
	byID        map[string]int
	bySource    map[position]int        // place of the source event in usage.events.v1
	events      map[identity]int        // (tenant, source, event id)
	anyTenant   map[[2]string][]int     // (source, event id): for events that do not say their tenant
	responses   map[identity]int        // (tenant, provider, response id)
	anyResponse map[[2]string]bool      // (provider, response id): for events that do not say their tenant
	own         map[string]bool         // tenants with own entries
	roots       map[[3]string]execution // (tenant, kind, root execution or branch)
	epochs      epochs
}

func readJournal(ctx context.Context, log *bus.Conn, r *Report) (*journal, error) {
	j := &journal{
		byID: map[string]int{}, bySource: map[position]int{}, events: map[identity]int{}, anyTenant: map[[2]string][]int{},
		responses: map[identity]int{}, anyResponse: map[[2]string]bool{}, own: map[string]bool{}, roots: map[[3]string]execution{},
		epochs: epochs{byID: map[string]int{}, bySource: map[position]bool{}},
	}
	err := readTopic(ctx, log, topics.LedgerEntries, func(rec bus.Record) { j.add(rec, r) })
	r.Entries = int64(len(j.entries))
	return j, err
}

// readTopic calls take for each record that is in a topic now, partition by partition.
func readTopic(ctx context.Context, log *bus.Conn, topic bus.Topic, take func(bus.Record)) error {
	for p := range int32(topic.Partitions()) {
		err := log.ReadPartition(ctx, topic, p, -1, -1, func(rec bus.Record) error {
			take(rec)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (j *journal) add(rec bus.Record, r *Report) {
	m := new(weirv1.LedgerEntry)
	where := fmt.Sprintf("offset %d/%d", rec.Partition, rec.Offset)
	if err := proto.Unmarshal(rec.Value, m); err != nil {
		r.differ("journal", where, "a LedgerEntry", err.Error())
		return
	}
	if m.GetKind() == weirv1.EntryKind_ENTRY_KIND_EPOCH_MARKER {
		j.addMark(m, rec, r)
		return
	}
	if m.GetId() == "" || m.GetTenantId() == "" {
		r.differ("journal", where, "an id and a tenant", "none")
		return
	}
	if want := bus.PartitionFor([]byte(m.GetTenantId()), topics.LedgerEntries.Partitions()); want != rec.Partition {
		r.differ("journal", m.GetId(), fmt.Sprintf("partition %d", want), fmt.Sprintf("partition %d", rec.Partition))
	}
	if first, seen := j.byID[m.GetId()]; seen {
		if !sameEntry(j.entries[first].LedgerEntry, m) {
			r.differ("journal", m.GetId(), "the same content as at its first offset", "other content at "+where)
		}
		return
	}
	n := len(j.entries)
	j.entries = append(j.entries, entry{m, position{rec.Partition, rec.Offset}})
	j.byID[m.GetId()] = n
	j.noteBudget(m)
	if m.GetKind() == weirv1.EntryKind_ENTRY_KIND_REVERSAL {
		return // it is no event's own entry
	}
	if m.GetSourceTopic() == topics.UsageEvents.Name() {
		j.bySource[position{m.GetSourcePartition(), m.GetSourceOffset()}] = n
	}
	j.events[identity{m.GetTenantId(), m.GetSource(), m.GetEventId()}] = n
	named := [2]string{m.GetSource(), m.GetEventId()}
	j.anyTenant[named] = append(j.anyTenant[named], n)
	if m.GetResponseId() != "" {
		provider := providerName(m.GetProvider())
		j.responses[identity{m.GetTenantId(), provider, m.GetResponseId()}] = n
		j.anyResponse[[2]string{provider, m.GetResponseId()}] = true
	}
}

// providerName is a provider without regard to case and blanks around: the books write it so, events as it was said.
func providerName(said string) string { return strings.ToLower(strings.TrimSpace(said)) }

// noteBudget remembers whose counters must be in Redis.
func (j *journal) noteBudget(m *weirv1.LedgerEntry) {
	isOwn := m.GetOwnNanos() != 0
	if isOwn {
		j.own[m.GetTenantId()] = true
	}
	note := func(id string, branch bool) {
		k := [3]string{m.GetTenantId(), fmt.Sprint(branch), id}
		x := j.roots[k]
		x.tenant, x.id, x.branch = m.GetTenantId(), id, branch
		if at := m.GetEventTime().AsTime(); isOwn && at.After(x.lastOwn) {
			x.lastOwn = at
		}
		j.roots[k] = x
	}
	if root := m.GetLineage().GetRootExecutionId(); root != "" {
		note(root, false)
	}
	for _, id := range branchesOf(m) {
		note(id, true)
	}
}

// sameEntry compares what a late write of a dead owner must have in common with the owner's: everything but the copy of
// the source event that each of them read.
func sameEntry(a, b *weirv1.LedgerEntry) bool {
	x, y := proto.Clone(a).(*weirv1.LedgerEntry), proto.Clone(b).(*weirv1.LedgerEntry)
	for _, m := range []*weirv1.LedgerEntry{x, y} {
		m.SourcePartition, m.SourceOffset, m.RecordedAt = 0, 0, nil
	}
	return proto.Equal(x, y)
}
