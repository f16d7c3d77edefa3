package admission

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/window"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/gen/weirv1"
)

const (
	// sinceMargin is how much the clocks of Postgres and the broker may differ: the base is looked for in what was written
	// that long before the raise, and after.
	sinceMargin = time.Hour
	// topicPoll is how often a topic is looked at for what is still missing there.
	topicPoll = 100 * time.Millisecond
)

// book is what budget.windows.v1 says in one partition: the base of the epoch, and totals that changed since.
// Memory: about 200 B for each total, of a base those of the tenants' last 10 minutes, 32 days, 3 months and executions.
type book struct {
	partition int32
	next      int64 // offset to be read next
	offset    int64 // journal offset behind the marker; 0 until the base is complete
	based     int   // totals of the base so far
	tenants   map[string]totals
}

// totals are one tenant's, each by what it is of: a repeated record replaces itself.
type totals map[totalKey]*weirv1.WindowTotal

type totalKey struct {
	base   bool
	scope  weirv1.ScopeKind
	id     string
	kind   weirv1.WindowKind
	window int64
}

// readBooks reads the topic until every partition's base is complete.
func (r *recoverer) readBooks(ctx context.Context) error {
	if r.books == nil {
		if err := r.openBooks(ctx); err != nil {
			return err
		}
	}
	checked := r.s.deps.Now()
	for {
		missing := 0
		for _, b := range r.books {
			if b.offset > 0 {
				continue
			}
			if err := r.read(ctx, b); err != nil {
				return err
			}
			if b.offset == 0 {
				missing++
			}
		}
		if missing == 0 {
			return nil
		}
		r.say("the base in budget.windows.v1, which relay, attributor and aggregator make", "partitions_missing", missing)
		pause(ctx, topicPoll)
		if now := r.s.deps.Now(); now.Sub(checked) > checkInterval {
			checked = now
			if err := r.check(ctx); err != nil {
				return err
			}
		}
	}
}

func (r *recoverer) openBooks(ctx context.Context) error {
	admin, err := r.s.conn.Admin()
	if err != nil {
		return err
	}
	defer admin.Close()
	since, err := admin.OffsetsSince(ctx, topics.BudgetWindows, r.row.RaisedAt.Add(-sinceMargin))
	if err != nil {
		return err
	}
	books := make([]*book, topics.BudgetWindows.Partitions())
	for p := range books {
		at, ok := since[int32(p)]
		if !ok {
			return fmt.Errorf("budget.windows.v1 has no partition %d", p)
		}
		books[p] = &book{partition: int32(p), next: at, tenants: map[string]totals{}}
	}
	r.books = books
	return nil
}

// read takes what is new in a partition.
func (r *recoverer) read(ctx context.Context, b *book) error {
	return r.s.conn.ReadPartition(ctx, topics.BudgetWindows, b.partition, b.next, -1, func(rec bus.Record) error {
		b.next = rec.Offset + 1
		if rec.Value == nil {
			return nil
		}
		w := new(weirv1.WindowTotal)
		if err := proto.Unmarshal(rec.Value, w); err != nil {
			return nil // counted by the reader of the topic
		}
		switch epoch := w.GetBaseEpoch(); {
		case epoch != 0 && epoch != r.maker.Epoch:
		case w.GetKind() == weirv1.WindowKind_WINDOW_KIND_BASE_END:
			// An end that came before its totals were written again may have lost some to compaction; another end follows then.
			if epoch == r.maker.Epoch && int64(b.based) == w.GetEntries() {
				b.offset = w.GetVersion()
			}
		case w.GetTenantId() != "":
			b.add(w)
		}
		return nil
	})
}

func (b *book) add(w *weirv1.WindowTotal) {
	t := b.tenants[w.GetTenantId()]
	if t == nil {
		t = totals{}
		b.tenants[w.GetTenantId()] = t
	}
	k := totalKey{base: w.GetBaseEpoch() != 0, scope: w.GetScopeKind(), id: w.GetScopeId(), kind: w.GetKind(), window: w.GetWindow()}
	old := t[k]
	if old == nil && k.base {
		b.based++
	}
	if old == nil || old.GetVersion() <= w.GetVersion() {
		t[k] = w
	}
}

// base is what a tenant's counters are made from. Totals of usage that never asked that are newer than the base come along:
// their reader may have passed them before the loss was seen.
func (b *book) base(s *Service, tenant string) budgetstore.Base {
	out := budgetstore.Base{Offset: b.offset}
	t, scopes := b.tenants[tenant], map[window.Scope][]budgetstore.OwnTotal{}
	for _, k := range slices.SortedFunc(maps.Keys(t), compareKeys) {
		w := t[k]
		external, concerns := s.totalOf(w)
		if !concerns {
			continue
		}
		if external.Scope >= budgetstore.ExecutionScope && k.base {
			out.Executions = append(out.Executions, budgetstore.ExecutionTotal{Root: w.GetScopeId(), Branch: external.Scope == budgetstore.BranchScope, Own: money.Nano(w.GetOwnNanos()),
				External: money.Nano(w.GetExternalNanos()), Calls: w.GetEntries(), Version: w.GetVersion(), LastUsed: w.GetLatestEventTime().AsTime()})
			continue
		}
		out.External = append(out.External, external)
		if !k.base {
			continue
		}
		own := budgetstore.OwnTotal{Scope: external.Scope, Window: w.GetWindow(), Nanos: money.Nano(w.GetOwnNanos()),
			Requests: max(0, w.GetEntries()), InputTokens: max(0, w.GetInputTokens()), OutputTokens: max(0, w.GetOutputTokens())}
		if of := external.SubScope.Scope; of != (window.Scope{}) {
			scopes[of] = append(scopes[of], own)
			continue
		}
		out.Own = append(out.Own, own)
	}
	for of, own := range scopes {
		out.Scopes = append(out.Scopes, budgetstore.ScopeBase{Scope: of, Own: own})
	}
	return out
}

// compareKeys orders windows by time, so that of more than the store keeps the latest stay.
func compareKeys(a, b totalKey) int {
	switch {
	case a.window != b.window:
		return int(max(-1, min(1, a.window-b.window)))
	case a.base != b.base: // the base first
		if a.base {
			return -1
		}
		return 1
	case a.id < b.id:
		return -1
	case a.id > b.id:
		return 1
	default:
		return int(a.kind - b.kind)
	}
}
