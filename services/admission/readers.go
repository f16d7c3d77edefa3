package admission

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/gen/weirv1"
	"github.com/weir-project/weir/pkg/journal"
	"github.com/weir-project/weir/pkg/pgstore"
)

// The consumer groups of topics/ledger.entries.v1.yaml and topics/budget.windows.v1.yaml.
const (
	journalGroup = "weir.admission-journal"
	windowsGroup = "weir.admission-windows"
)

const (
	// readerRetry bounds how long a reader waits between two tries: what it brings is due in seconds, above all after a
	// recovery, whose end it would sleep through otherwise.
	readerRetry = 2 * time.Second
	// recoveryWait is how long a batch waits for the end of a recovery before that is an error, and the batch tried again.
	recoveryWait = 4 * time.Second
)

// journalReader heals from the journal what the scripts missed (ADR 0001). It may see the same batch again: direct
// entries act only while their hold is there, the others only above the journal offset in the tenant's state.
type journalReader struct {
	s       *Service
	mu      sync.Mutex
	filters map[int32]*journal.Filter
}

func (s *Service) newJournalReader() (*bus.Consumer, error) {
	r := &journalReader{s: s, filters: map[int32]*journal.Filter{}}
	return s.conn.Consumer(bus.ConsumerConfig{Group: journalGroup, Topics: []bus.Topic{topics.LedgerEntries}, OnAssigned: r.assigned,
		OnRevoked: r.gone, OnLost: r.gone, RetryMax: readerRetry}, r.handle)
}

func (r *journalReader) assigned(ctx context.Context, claim bus.Claim, at bus.Committed) (int64, error) {
	f := journal.NewFilter()
	if err := f.Warm(ctx, r.s.conn, claim.Topic(), claim.Partition(), at.Offset, entryID); err != nil {
		return 0, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.filters[claim.Partition()] = f
	return bus.AtCommitted, nil
}

func (r *journalReader) gone(claim bus.Claim) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.filters, claim.Partition())
}

// whileRecovering waits for the end of a recovery, for a while: nothing can be applied before.
func (s *Service) whileRecovering(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, recoveryWait)
	defer cancel()
	for s.epochs.Last().Recovering && ctx.Err() == nil && s.life.Err() == nil {
		pause(ctx, topicPoll)
	}
}

// handle applies a batch of journal entries, tenant by tenant in offset order.
func (r *journalReader) handle(ctx context.Context, claim bus.Claim, batch []bus.Record) error {
	r.s.whileRecovering(ctx)

	// decode
	r.mu.Lock()
	filter := r.filters[claim.Partition()]
	r.mu.Unlock()
	var order []string
	byTenant := map[string][]budgetstore.JournalEntry{}
	for _, rec := range batch {
		e := new(weirv1.LedgerEntry)
		if err := proto.Unmarshal(rec.Value, e); err != nil {
			// The attributor alone writes here. What does not decode cannot be healed by waiting, and `weir audit` names it.
			r.s.metrics.badRecords.WithLabelValues(rec.Topic.Name()).Inc()
			r.s.deps.Log.Error("journal entry refused", "partition", rec.Partition, "offset", rec.Offset, "error", err)
			continue
		}
		if filter.Seen(e.GetId(), rec.Offset, rec.Timestamp) {
			continue
		}

		// load, decide
		t, err := r.s.of(e.GetTenantId())
		if err != nil {
			return err
		}
		entry, concerns, err := r.s.journalEntry(ctx, t, e, rec.Offset)
		if err != nil {
			return err
		}
		if !concerns {
			continue
		}
		tenant := e.GetTenantId()
		if _, known := byTenant[tenant]; !known {
			order = append(order, tenant)
		}
		byTenant[tenant] = append(byTenant[tenant], entry)
	}

	// save
	for _, tenant := range order {
		if err := r.s.applyJournal(ctx, tenant, byTenant[tenant]); err != nil {
			return fmt.Errorf("journal of tenant %s: %w", tenant, err)
		}
	}
	return nil
}

// journalEntry is what an entry means for the counters of its tenant; concerns is false where it means nothing.
func (s *Service) journalEntry(ctx context.Context, t budgetstore.Tenant, e *weirv1.LedgerEntry, offset int64) (budgetstore.JournalEntry, bool, error) {
	if e.GetReservationId() == "" {
		return budgetstore.JournalEntry{}, false, nil
	}
	out := budgetstore.JournalEntry{
		Offset: offset, ReservationID: e.GetReservationId(), ReservedAt: e.GetReservedAt().AsTime(), Root: e.GetLineage().GetRootExecutionId(),
		Day: e.GetWindows().GetDay(), Scopes: s.scopeRefs(e.GetTenantId(), e.GetScopes()), Said: money.Nano(e.GetHeldNanos()),
		Lost:   e.GetEpoch() != t.Epoch,
		Actual: admit.Estimate{Nanos: money.Nano(e.GetOwnNanos()), InputTokens: e.GetInputTokens(), OutputTokens: e.GetOutputTokens()},
	}
	switch {
	case e.GetOwnMode() == weirv1.OwnMode_OWN_MODE_DIRECT:
		out.Kind = budgetstore.Direct
		return out, true, nil
	case e.GetOwnMode() == weirv1.OwnMode_OWN_MODE_JOURNAL:
		out.Kind = budgetstore.Journal
		return out, true, nil
	case e.GetKind() != weirv1.EntryKind_ENTRY_KIND_USAGE:
		return out, false, nil
	}
	return s.closeByUsage(ctx, t, out)
}

// closeByUsage closes a hold whose usage came from elsewhere, Postgres first: whoever is first in its row decides.
func (s *Service) closeByUsage(ctx context.Context, t budgetstore.Tenant, out budgetstore.JournalEntry) (budgetstore.JournalEntry, bool, error) {
	h, err := s.hold(ctx, t, out.ReservationID)
	if errors.Is(err, budgetstore.ErrNoHold) {
		return out, false, nil
	}
	if err != nil {
		return out, false, err
	}
	subj, err := subjectOf(t, h)
	if err != nil {
		return out, false, err
	}
	write, cancel := s.bounded(ctx)
	defer cancel()
	stored, _, err := s.rows.End(write, subj.row(pgstore.External), nil)
	if err != nil {
		return out, false, err
	}
	s.forget(subj)
	out.Kind, out.ReservedAt, out.Actual = budgetstore.External, subj.reservedAt, admit.Estimate{}
	return out, stored.Outcome == pgstore.External && stored.ReservedAt.Equal(subj.reservedAt), nil
}

func (s *Service) applyJournal(ctx context.Context, tenant string, entries []budgetstore.JournalEntry) error {
	t, err := s.of(tenant)
	if err != nil {
		return err
	}
	apply, cancel := s.bounded(ctx)
	defer cancel()
	err = s.onTenant(apply, t, func() error {
		healed, err := s.counters.ApplyJournal(apply, t, entries)
		s.metrics.healed.Add(float64(healed))
		return err
	})
	for _, e := range entries {
		if e.Held > e.Said { // grown where its owner did not see it: rare, so a read of Postgres each is no matter
			s.heldMoreOf(ctx, tenant, e)
		}
	}
	return err
}

// entryID names an entry for the filter of duplicates; what does not decode will be skipped and needs no memory.
func entryID(rec bus.Record) (string, error) {
	e := new(weirv1.LedgerEntry)
	if err := proto.Unmarshal(rec.Value, e); err != nil {
		return "", nil
	}
	return e.GetId(), nil
}

func (s *Service) newWindowReader() (*bus.Consumer, error) {
	return s.conn.Consumer(bus.ConsumerConfig{Group: windowsGroup, Topics: []bus.Topic{topics.BudgetWindows}, RetryMax: readerRetry}, s.handleWindows)
}

// handleWindows writes totals of usage that never asked into Redis, which takes only a higher version than it has.
func (s *Service) handleWindows(ctx context.Context, _ bus.Claim, batch []bus.Record) error {
	s.whileRecovering(ctx)

	// decode
	var order []string
	byTenant := map[string][]budgetstore.ExternalTotal{}
	for _, rec := range batch {
		if rec.Value == nil {
			continue
		}
		w := new(weirv1.WindowTotal)
		err := proto.Unmarshal(rec.Value, w)
		if w.GetBaseEpoch() != 0 { // of a past moment: only a recovery reads it
			continue
		}
		if err != nil || w.GetTenantId() == "" {
			s.metrics.badRecords.WithLabelValues(rec.Topic.Name()).Inc()
			s.deps.Log.Error("window total refused", "partition", rec.Partition, "offset", rec.Offset, "error", err)
			continue
		}
		total, concerns := s.totalOf(w)
		if !concerns {
			continue
		}
		if _, known := byTenant[w.GetTenantId()]; !known {
			order = append(order, w.GetTenantId())
		}
		byTenant[w.GetTenantId()] = append(byTenant[w.GetTenantId()], total)
	}

	// save
	for _, tenant := range order {
		if err := s.applyExternal(ctx, tenant, byTenant[tenant]); err != nil {
			return fmt.Errorf("external totals of tenant %s: %w", tenant, err)
		}
	}
	return nil
}

func (s *Service) applyExternal(ctx context.Context, tenant string, totals []budgetstore.ExternalTotal) error {
	t, err := s.of(tenant)
	if err != nil {
		return err
	}
	apply, cancel := s.bounded(ctx)
	defer cancel()
	return s.onTenant(apply, t, func() error {
		_, err := s.counters.ApplyExternal(apply, t, totals)
		return err
	})
}

// externalTotal is a window total as the budget store takes it; false for those that no ceiling is about.
func externalTotal(w *weirv1.WindowTotal) (budgetstore.ExternalTotal, bool) {
	switch {
	case w.GetScopeKind() == weirv1.ScopeKind_SCOPE_KIND_EXECUTION && w.GetKind() == weirv1.WindowKind_WINDOW_KIND_EXECUTION:
		return budgetstore.ExternalTotal{Scope: budgetstore.ExecutionScope, Root: w.GetScopeId(), Version: w.GetVersion(),
			Nanos: money.Nano(w.GetExternalNanos())}, w.GetScopeId() != ""
	case w.GetScopeKind() == weirv1.ScopeKind_SCOPE_KIND_EXECUTION_BRANCH && w.GetKind() == weirv1.WindowKind_WINDOW_KIND_EXECUTION:
		return budgetstore.ExternalTotal{Scope: budgetstore.BranchScope, Root: w.GetScopeId(), Version: w.GetVersion(),
			Nanos: money.Nano(w.GetExternalNanos())}, w.GetScopeId() != ""
	case w.GetScopeKind() != weirv1.ScopeKind_SCOPE_KIND_TENANT:
		return budgetstore.ExternalTotal{}, false
	}
	return windowTotal(w)
}

// windowTotal is a total of a minute, day or month, whosever it is.
func windowTotal(w *weirv1.WindowTotal) (budgetstore.ExternalTotal, bool) {
	out := budgetstore.ExternalTotal{Window: w.GetWindow(), Version: w.GetVersion(), Nanos: money.Nano(w.GetExternalNanos())}
	switch w.GetKind() {
	case weirv1.WindowKind_WINDOW_KIND_MINUTE:
		out.Scope = budgetstore.MinuteScope
	case weirv1.WindowKind_WINDOW_KIND_DAY:
		out.Scope = budgetstore.DayScope
	case weirv1.WindowKind_WINDOW_KIND_MONTH:
		out.Scope = budgetstore.MonthScope
	default:
		return out, false
	}
	return out, true
}
