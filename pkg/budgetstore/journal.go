package budgetstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/money"
)

// batch bounds what one script call applies, so that it stays far below a
// millisecond of Redis' time.
const batch = 64

// ApplyJournal applies entries of one tenant, in ascending offset order; an
// entry below the state's journal offset has no effect. It returns how many
// changed something, and sets Held of those that ended a hold.
func (s *Store) ApplyJournal(ctx context.Context, t Tenant, entries []JournalEntry) (int, error) {
	return s.applyJournal(ctx, t, 0, entries)
}

// Replay is ApplyJournal by whoever makes the tenant's counters: ErrFenced where another one has made them since, whose
// entries would be passed over, ErrReady where they are in use.
func (s *Store) Replay(ctx context.Context, tenant string, m Maker, entries []JournalEntry) (int, error) {
	return s.applyJournal(ctx, Tenant{ID: tenant, Epoch: m.Epoch}, m.Generation, entries)
}

// applyJournal applies entries, of whoever made the counters in a generation; 0: they are in use.
func (s *Store) applyJournal(ctx context.Context, t Tenant, generation int64, entries []JournalEntry) (int, error) {
	changed := 0
	for chunk := range slices.Chunk(entries, batch) {
		args := []any{packed(nil, t.Epoch, generation), s.remembered(), millis(s.opts.ExecutionTTL), s.at()}
		for _, e := range chunk {
			if err := e.Actual.Validate(); err != nil {
				return changed, fmt.Errorf("journal offset %d: %w", e.Offset, err)
			}
			scopes, err := scopeRefs(slices.DeleteFunc(slices.Clone(e.Scopes), ScopeRef.unknown))
			if err != nil {
				return changed, fmt.Errorf("journal offset %d: %w", e.Offset, err)
			}
			id := e.ReservationID
			if !nameable(id) { // of no hold: usage that never asked may name a field of the state
				id = ""
			}
			calls := int64(0)
			if e.Lost {
				calls = 1
			}
			b := packed(nil, e.Offset, int64(e.Kind), e.ReservedAt.UnixMicro(), int64(e.Day),
				int64(e.Actual.Nanos), e.Actual.InputTokens, e.Actual.OutputTokens, calls)
			args = append(args, append(b, idHash(id)...), id, e.Root, scopes)
		}
		_, f, err := s.make(ctx, "journal", s.scripts.journal, []string{key(t, "s")}, args...)
		if err != nil {
			return changed, err
		}
		changed += int(f.int())
		for len(f.b) > 0 && !f.short {
			chunk[int(f.byte())%len(chunk)].Held = money.Nano(f.double())
		}
		if err := f.err("journal"); err != nil {
			return changed, err
		}
	}
	return changed, nil
}

// ApplyExternal takes cumulative totals of one tenant, in any order; only a
// higher version than the one held is taken. Totals of windows that are no
// longer kept are ignored, and so are those of windows that begin more than
// two days from now, and of a name that no reservation can bring: any producer
// may make such an event up, and no ceiling is about it.
// An amount beyond a counter's bound is held at the bound. Totals of executions that are not known are left out where
// MaxExecutions are that were never started: a later total brings what came before it.
// It returns how many were taken.
func (s *Store) ApplyExternal(ctx context.Context, t Tenant, totals []ExternalTotal) (int, error) {
	taken := 0
	for chunk := range slices.Chunk(totals, batch) {
		args := []any{packed(nil, t.Epoch), millis(s.opts.ExecutionTTL), s.at()}
		for _, x := range chunk {
			if x.Version < 0 || x.Version > admit.Unlimited {
				return taken, fmt.Errorf("%w: external total %+v", admit.ErrInvalid, x)
			}
			if x.Scope >= ExecutionScope && !nameable(x.Root) || x.SubScope.unknown() {
				continue
			}
			if x.Scope == BranchScope {
				x.Scope, x.Root = ExecutionScope, branchName(x.Root)
			}
			sub, err := x.SubScope.ref()
			if err != nil {
				return taken, err
			}
			args = append(args, packed(nil, int64(x.Scope), x.Window, x.Version, clamp(x.Nanos)), x.Root, sub)
		}
		if len(args) == 3 {
			continue
		}
		_, f, err := s.run(ctx, "external", s.scripts.external, []string{key(t, "s")}, args...)
		if err != nil {
			return taken, err
		}
		n, left := f.int(), f.int()
		if err := f.err("external"); err != nil {
			return taken, err
		}
		taken += int(n)
		s.leftOut(left)
	}
	return taken, nil
}

// leftOut reports totals of executions that found no place.
func (s *Store) leftOut(n int64) {
	if n > 0 {
		s.opts.LeftOut(n)
	}
}
