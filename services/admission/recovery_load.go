package admission

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/gen/weirv1"
	"github.com/weir-project/weir/pkg/journal"
	"github.com/weir-project/weir/pkg/pgstore"
)

const (
	// loadChunk is how many tenants, executions or entries are worked on between two looks whether the lead still stands,
	// and loadAtOnce how many at a time.
	loadChunk  = 500
	loadAtOnce = 16
)

// load makes the counters of every tenant that may have had some, from the base.
func (r *recoverer) load(ctx context.Context) error {
	if err := r.readBooks(ctx); err != nil {
		return err
	}
	removed, err := r.s.counters.ClearOthers(ctx, r.maker, r.lead.Check)
	if err != nil {
		return err
	}
	for _, b := range r.books { // nobody reads by the lost epoch any more: whatever was passed before is there by now
		if err := r.read(ctx, b); err != nil {
			return err
		}
	}
	tenants, err := r.tenants(ctx)
	if err != nil {
		return err
	}
	r.s.deps.Log.Warn("making the counters anew", "epoch", r.maker.Epoch, "tenants", len(tenants), "keys_removed", removed)
	for chunk := range slices.Chunk(tenants, loadChunk) {
		if err := r.lead.Check(ctx); err != nil {
			return err
		}
		if err := r.loadTenants(ctx, chunk); err != nil {
			return err
		}
	}
	return nil
}

// tenants are those of the base, and those that ever had counters: their holds may be pending.
func (r *recoverer) tenants(ctx context.Context) ([]string, error) {
	all := map[string]bool{}
	for _, b := range r.books {
		for t := range b.tenants {
			all[t] = true
		}
	}
	for after := ""; ; {
		page, err := r.s.rows.ReadyTenants(ctx, after, loadChunk)
		if err != nil {
			return nil, err
		}
		for _, t := range page {
			all[t] = true
		}
		if len(page) < loadChunk {
			return slices.Sorted(maps.Keys(all)), nil
		}
		after = page[len(page)-1]
	}
}

func (r *recoverer) loadTenants(ctx context.Context, tenants []string) error {
	var mu sync.Mutex
	err := eachOf(ctx, tenants, func(ctx context.Context, tenant string) error {
		merged, err := r.s.counters.LoadBase(ctx, tenant, r.maker, r.bookOf(tenant).base(r.s, tenant))
		if err != nil {
			return fmt.Errorf("load tenant %s: %w", tenant, err)
		}
		mu.Lock()
		defer mu.Unlock()
		r.loaded[tenant] = true
		r.merged += merged
		return nil
	})
	if err == nil {
		err = r.s.rows.TenantsMade(ctx, r.maker.Epoch, tenants)
	}
	if err == nil {
		r.s.metrics.recovery.loads.Add(float64(len(tenants)))
	}
	return err
}

func (r *recoverer) bookOf(tenant string) *book {
	return r.books[bus.PartitionFor([]byte(tenant), len(r.books))]
}

// eachOf runs do for each item, a few at a time, until one fails.
func eachOf[T any](ctx context.Context, list []T, do func(context.Context, T) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(loadAtOnce)
	for _, item := range list {
		g.Go(func() error { return do(ctx, item) })
	}
	return g.Wait()
}

// errBarrier ends the reading of a partition's journal.
var errBarrier = errors.New("barrier")

// apply takes from the journal what was settled between the two markers.
func (r *recoverer) apply(ctx context.Context) error {
	for _, b := range r.books {
		if err := r.applyPartition(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// between are entries of the journal on their way into the counters, tenant by tenant in offset order.
type between struct {
	filter   *journal.Filter
	byTenant map[string][]budgetstore.JournalEntry
	entries  int
}

func (r *recoverer) applyPartition(ctx context.Context, b *book) error {
	filter := journal.NewFilter()
	if err := filter.Warm(ctx, r.s.conn, topics.LedgerEntries, b.partition, b.offset, entryID); err != nil {
		return err
	}
	batch := &between{filter: filter, byTenant: map[string][]budgetstore.JournalEntry{}}
	next, checked := b.offset, r.s.deps.Now()
	for {
		err := r.s.conn.ReadPartition(ctx, topics.LedgerEntries, b.partition, next, -1, func(rec bus.Record) error {
			if err := r.take(ctx, batch, rec); err != nil {
				return err
			}
			next = rec.Offset + 1
			return nil
		})
		barrier := errors.Is(err, errBarrier)
		if err != nil && !barrier {
			return err
		}
		if err := r.flush(ctx, batch); err != nil || barrier {
			return err
		}
		r.say("the barrier in ledger.entries.v1, which relay and attributor make", "partition", b.partition)
		pause(ctx, topicPoll)
		if now := r.s.deps.Now(); now.Sub(checked) > checkInterval {
			checked = now
			if err := r.check(ctx); err != nil {
				return err
			}
		}
	}
}

// take reads one record of the journal.
func (r *recoverer) take(ctx context.Context, batch *between, rec bus.Record) error {
	e := new(weirv1.LedgerEntry)
	if err := proto.Unmarshal(rec.Value, e); err != nil {
		return nil // counted by the reader of the topic
	}
	if e.GetKind() == weirv1.EntryKind_ENTRY_KIND_EPOCH_MARKER {
		if m := e.GetMarker(); m.GetEpoch() == r.maker.Epoch && m.GetPhase() == weirv1.EpochPhase_EPOCH_PHASE_BARRIER {
			return errBarrier
		}
		return nil
	}
	if batch.filter.Seen(e.GetId(), rec.Offset, rec.Timestamp) {
		return nil
	}
	if !r.loaded[e.GetTenantId()] { // it never reserved anything; what it has is in the base
		if err := r.loadTenants(ctx, []string{e.GetTenantId()}); err != nil {
			return err
		}
	}
	t := budgetstore.Tenant{ID: e.GetTenantId(), Epoch: r.maker.Epoch}
	entry, concerns, err := r.s.journalEntry(ctx, t, e, rec.Offset)
	if err != nil || !concerns {
		return err
	}
	batch.byTenant[t.ID] = append(batch.byTenant[t.ID], entry)
	if batch.entries++; batch.entries >= loadChunk {
		return r.flush(ctx, batch)
	}
	return nil
}

func (r *recoverer) flush(ctx context.Context, batch *between) error {
	for tenant, entries := range batch.byTenant {
		changed, err := r.s.counters.Replay(ctx, tenant, r.maker, entries)
		if err != nil {
			return fmt.Errorf("journal of tenant %s: %w", tenant, err)
		}
		r.applied += changed
		batch.entries -= len(entries)
		delete(batch.byTenant, tenant)
	}
	return nil
}

// limits gives executions back what the journal does not say: their limits, which Postgres has, and whether they were
// revoked. And it mirrors the kill switches.
func (r *recoverer) limits(ctx context.Context) error {
	since := r.row.Now.Add(-maxRootAge)
	for tenant, root := "", ""; ; {
		if err := r.lead.Check(ctx); err != nil {
			return err
		}
		page, err := r.s.rows.Executions(ctx, since, tenant, root, loadChunk)
		if err != nil {
			return err
		}
		if err := eachOf(ctx, page, r.limit); err != nil {
			return err
		}
		r.executions += len(page)
		if len(page) < loadChunk {
			break
		}
		tenant, root = page[len(page)-1].Tenant, page[len(page)-1].Root
	}
	for p := range int32(topics.ExecutionsRevoked.Partitions()) {
		err := r.s.conn.ReadPartition(ctx, topics.ExecutionsRevoked, p, -1, -1, func(rec bus.Record) error { return r.revoke(ctx, rec, since) })
		if err != nil {
			return err
		}
	}
	r.s.syncKills(ctx)
	return nil
}

func (r *recoverer) limit(ctx context.Context, x pgstore.Execution) error {
	contract := r.s.catalogs.tenants.InForce(x.Tenant, r.s.deps.Now())
	if contract == nil {
		return nil // nobody can reserve in its name
	}
	limits := executionLimits(contract, x.MaxCost, x.MaxDepth)
	t := budgetstore.Tenant{ID: x.Tenant, Epoch: r.maker.Epoch}
	_, err := r.s.counters.StartExecution(ctx, t, x.Root, limits)
	if err == nil && !x.ClosedAt.IsZero() {
		err = r.s.counters.CloseExecution(ctx, t, x.Root)
	}
	// Its tenant never had counters; or there is no place, as there was none when it asked, and the limits are in its tokens.
	if isLoss(err) || errors.Is(err, budgetstore.ErrExecutions) {
		return nil
	}
	return err
}

func (r *recoverer) revoke(ctx context.Context, rec bus.Record, since time.Time) error {
	rev, ok := r.s.revocation(rec)
	if !ok || rev.GetRevokedAt().AsTime().Before(since) {
		return nil
	}
	err := r.s.revoke(ctx, budgetstore.Tenant{ID: rev.GetTenantId(), Epoch: r.maker.Epoch}, rev.GetRootExecutionId())
	if isLoss(err) {
		return nil
	}
	return err
}

// open lets the tenants' reservations in.
func (r *recoverer) open(ctx context.Context) error {
	tenants := slices.Sorted(maps.Keys(r.loaded))
	for chunk := range slices.Chunk(tenants, loadChunk) {
		err := eachOf(ctx, chunk, func(ctx context.Context, tenant string) error {
			t := budgetstore.Tenant{ID: tenant, Epoch: r.maker.Epoch}
			if err := r.s.counters.MarkReady(ctx, t); err != nil {
				return err
			}
			return r.s.counters.ForgetPending(ctx, t)
		})
		if err != nil {
			return err
		}
	}
	return r.s.rows.ForgetTenants(ctx, r.maker.Epoch)
}
