package budgetaggregator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/domain/ledger"
	"github.com/weir-project/weir/pkg/domain/window"
	"github.com/weir-project/weir/pkg/gen/weirv1"
)

// Totals of branches do not stay, unlike all others: any agent may begin one. A branch counts for as long as its root lives,
// at most 7 days. An entry that is recorded later than branchLate after its event counts in none, so that a branch of which
// nothing was heard for branchKept, longer than both together, has its last total: it is removed from memory and output.
const (
	branchLate = 9 * 24 * time.Hour
	branchKept = 17 * 24 * time.Hour
	// ageEvery is how often that is looked for: each total is looked at.
	ageEvery = time.Hour
)

// branchesOf are the branches that an entry counts in.
func branchesOf(e ledger.Entry) []key {
	if e.RecordedAt.Sub(e.EventTime) > branchLate {
		return nil
	}
	var keys []key
	for _, s := range e.Scopes {
		if s.Kind == window.Branch {
			keys = append(keys, key{e.TenantID, weirv1.ScopeKind_SCOPE_KIND_EXECUTION_BRANCH, s.ID, weirv1.WindowKind_WINDOW_KIND_EXECUTION, 0})
		}
	}
	return keys
}

// age removes the totals of branches that nothing can come for any more, as of when an entry was recorded: by its producer's
// clock, which may be ahead, so at most by ours. They are gone from the output with the next publication.
func (b *book) age(now time.Time) {
	if ours := b.now(); now.After(ours) {
		now = ours
	}
	if now.Sub(b.aged) < ageEvery {
		return
	}
	b.aged = now
	for k, t := range b.totals {
		if k.scope == weirv1.ScopeKind_SCOPE_KIND_EXECUTION_BRANCH && now.Sub(t.Latest) > branchKept {
			b.forget(k)
			b.gone[k.text()] = struct{}{}
		}
	}
}

// forget drops one total, and gives its room back.
func (b *book) forget(k key) {
	if _, known := b.totals[k]; known {
		b.room.used.Add(-1)
	}
	delete(b.totals, k)
	delete(b.dirty, k)
}

// bury writes tombstones for the totals that are gone.
func (b *book) bury(ctx context.Context, produce func(context.Context, ...bus.Record) error) error {
	if err := b.remove(ctx, produce, slices.Collect(maps.Keys(b.gone))); err != nil {
		return fmt.Errorf("remove totals of branches: %w", err)
	}
	clear(b.gone)
	return nil
}

// buried is the total that a tombstone of the output is about; false where it is none of a branch.
func buried(recordKey []byte) (key, bool) {
	parts := strings.Split(string(recordKey), "\x00")
	if len(parts) != 3 || parts[1] != string(window.Branch) {
		return key{}, false
	}
	return key{parts[0], weirv1.ScopeKind_SCOPE_KIND_EXECUTION_BRANCH, parts[2], weirv1.WindowKind_WINDOW_KIND_EXECUTION, 0}, true
}
