package budgetstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/window"
)

// Errors of whoever makes counters anew.
var (
	// ErrFenced: somebody who took the recovery over has made these counters already.
	ErrFenced = errors.New("budget store: another one carries the recovery out")
	// ErrReady: the tenant's counters are in use; they cannot be made again.
	ErrReady = errors.New("budget store: the tenant's counters are ready already")
)

// Maker is who makes a tenant's counters of an epoch. Of several, the highest generation is right.
type Maker struct {
	Epoch      int64
	Generation int64 // 1 to 2^53
}

// OwnTotal is what own usage of one window adds up to.
type OwnTotal struct {
	Scope                               Scope // MinuteScope, DayScope, MonthScope
	Window                              int64 // as in ExternalTotal
	Nanos                               money.Nano
	Requests, InputTokens, OutputTokens int64 // of a minute
}

// ExecutionTotal is what usage of one root execution, or of a branch of one, adds up to.
type ExecutionTotal struct {
	Root          string
	Branch        bool // Root is the branch's id
	Own, External money.Nano
	Calls         int64
	Version       int64 // of External
	LastUsed      time.Time
}

// Base is what a tenant's counters are made from: what the journal adds up to before Offset.
type Base struct {
	Offset     int64 // next offset to be applied
	Own        []OwnTotal
	External   []ExternalTotal
	Executions []ExecutionTotal
	Scopes     []ScopeBase
}

// ScopeBase is what one sub-scope is made from, beside its External totals.
type ScopeBase struct {
	Scope window.Scope
	Own   []OwnTotal
}

// LoadBase makes a tenant's counters anew, not ready, and opens its pending holds in them. It may be repeated until they
// are ready: ErrReady then. A maker of an earlier generation gets ErrFenced. It returns how many holds it opened.
func (s *Store) LoadBase(ctx context.Context, tenant string, m Maker, b Base) (int, error) {
	t := Tenant{ID: tenant, Epoch: m.Epoch}
	if err := checkID("tenant", tenant); err != nil {
		return 0, err
	}
	if err := s.makeBase(ctx, t, m, b); err != nil {
		return 0, err
	}
	if err := s.makeScopes(ctx, t, m, b); err != nil {
		return 0, err
	}
	executions, left := withinBound(b.Executions)
	s.leftOut(left)
	for chunk := range slices.Chunk(executions, batch) {
		args := []any{packed(nil, m.Epoch, m.Generation), millis(s.opts.ExecutionTTL), s.at()}
		for _, x := range chunk {
			name := x.Root
			if x.Branch {
				name = branchName(name)
			}
			args = append(args, packed(nil, clamp(x.Own), clamp(x.External), x.Calls, x.Version, x.LastUsed.UnixMicro()), name)
		}
		if _, _, err := s.make(ctx, "base executions", s.scripts.baseExecutions, []string{key(t, "s")}, args...); err != nil {
			return 0, err
		}
	}
	if _, err := s.ApplyExternal(ctx, t, b.External); err != nil {
		return 0, err
	}
	_, f, err := s.make(ctx, "merge", s.scripts.merge, []string{key(t, "s"), key(t, "n")},
		packed(nil, m.Epoch, m.Generation), millis(s.opts.ExecutionTTL), s.at())
	if err != nil {
		return 0, err
	}
	merged := int(f.int())
	return merged, f.err("merge")
}

// withinBound is as much of a base as a tenant has places for: of roots that were reserved in, of other roots and of branches
// MaxExecutions each, those that were used last. left is how many are not among them.
func withinBound(all []ExecutionTotal) (in []ExecutionTotal, left int64) {
	type group struct{ branch, own bool }
	counts := map[group]int{}
	latest := slices.SortedStableFunc(slices.Values(all), func(a, b ExecutionTotal) int { return b.LastUsed.Compare(a.LastUsed) })
	for _, x := range latest {
		of := group{branch: x.Branch, own: !x.Branch && x.Own != 0}
		switch {
		case !nameable(x.Root):
		case counts[of] == MaxExecutions:
			left++
		default:
			counts[of]++
			in = append(in, x)
		}
	}
	return in, left
}

func (s *Store) makeBase(ctx context.Context, t Tenant, m Maker, b Base) error {
	args := []any{packed(nil, m.Epoch, m.Generation, b.Offset), s.at()}
	for _, x := range inOrder(b.Own) {
		if err := x.validate(); err != nil {
			return err
		}
		args = append(args, x.packed(nil))
	}
	_, _, err := s.make(ctx, "base", s.scripts.base, []string{key(t, "s")}, args...)
	return err
}

// makeScopes makes the sub-scopes of the base, those of which only external totals are known too: what an earlier run
// counted in them must not stay.
func (s *Store) makeScopes(ctx context.Context, t Tenant, m Maker, b Base) error {
	own := map[window.Scope][]byte{}
	for _, x := range b.External {
		if x.SubScope.Scope != (window.Scope{}) && !x.SubScope.unknown() {
			own[x.SubScope.Scope] = nil
		}
	}
	for _, scope := range b.Scopes {
		if (ScopeRef{Scope: scope.Scope}).unknown() {
			continue
		}
		for _, x := range inOrder(scope.Own) {
			if err := x.validate(); err != nil {
				return err
			}
			own[scope.Scope] = x.packed(own[scope.Scope])
		}
	}
	for chunk := range slices.Chunk(slices.SortedFunc(maps.Keys(own), window.Scope.Compare), batch) {
		args := []any{packed(nil, m.Epoch, m.Generation), s.at()}
		for _, scope := range chunk {
			ref, err := (ScopeRef{Scope: scope}).ref()
			if err != nil {
				return err
			}
			args = append(args, ref[1:], own[scope])
		}
		if _, _, err := s.make(ctx, "base scopes", s.scripts.baseScopes, []string{key(t, "s")}, args...); err != nil {
			return err
		}
	}
	return nil
}

// inOrder puts days and months in ascending order, so that of more than the store keeps the latest stay.
func inOrder(own []OwnTotal) []OwnTotal {
	return slices.SortedFunc(slices.Values(own), func(x, y OwnTotal) int {
		return cmp.Or(cmp.Compare(x.Scope, y.Scope), cmp.Compare(x.Window, y.Window))
	})
}

func (x OwnTotal) validate() error {
	if x.Scope > MonthScope {
		return fmt.Errorf("%w: own total of scope %d", admit.ErrInvalid, x.Scope)
	}
	return nil
}

func (x OwnTotal) packed(b []byte) []byte {
	return packed(b, int64(x.Scope), x.Window, clamp(x.Nanos), x.Requests, x.InputTokens, x.OutputTokens)
}

// clamp keeps an amount within the bound of a counter: one at the bound blocks further admission.
func clamp(n money.Nano) int64 { return int64(max(-money.MaxNano, min(money.MaxNano, n))) }

// make runs a script that a Maker may run.
func (s *Store) make(ctx context.Context, name string, script *redis.Script, keys []string, args ...any) (byte, *figures, error) {
	code, f, err := s.run(ctx, name, script, keys, args...)
	if err == nil && code == replyElse {
		err = fmt.Errorf("%s: %w", name, ErrReady)
	}
	return code, f, err
}

// clearPage is how many keys are looked at between two calls of alive.
const clearPage = 1000

// ClearOthers removes what earlier epochs left of any tenant's keys, except pending holds, which go by their own epoch. It
// looks at every key of Redis once, whatever Allow says. alive is asked before each page; its error ends the work.
func (s *Store) ClearOthers(ctx context.Context, m Maker, alive func(context.Context) error) (removed int, err error) {
	walk := func(ctx context.Context, c redis.Cmdable) error {
		cursor := uint64(0)
		for {
			if err := alive(ctx); err != nil {
				return err
			}
			page, next, err := c.Scan(ctx, cursor, "w:{*", clearPage).Result()
			if err != nil {
				return fmt.Errorf("%w: scan: %w", ErrUnavailable, err)
			}
			n, err := s.clear(ctx, m, page)
			if removed += n; err != nil {
				return err
			}
			if cursor = next; cursor == 0 {
				return nil
			}
		}
	}
	masters, err := s.masters(ctx)
	if err != nil {
		return 0, err
	}
	for _, c := range masters {
		if err := walk(ctx, c); err != nil {
			return removed, err
		}
	}
	return removed, nil
}

// clear removes the keys of a page, tenant by tenant.
func (s *Store) clear(ctx context.Context, m Maker, page []string) (int, error) {
	byTenant := map[string][]string{}
	for _, k := range page {
		tenant, name, ok := strings.Cut(strings.TrimPrefix(k, "w:{"), "}:")
		if ok && name != "n" {
			byTenant[tenant] = append(byTenant[tenant], k)
		}
	}
	removed := 0
	for tenant, keys := range byTenant {
		state := key(Tenant{ID: tenant}, "s")
		keys = slices.DeleteFunc(keys, func(k string) bool { return k == state })
		for chunk := range slices.Chunk(append([]string{state}, keys...), batch) {
			if chunk[0] != state { // the script looks at the state first
				chunk = append([]string{state}, chunk...)
			}
			reply, err := text(s.scripts.clear.Run(ctx, s.probe, chunk, packed(nil, m.Epoch, m.Generation)).Result())
			code, _, err := parse("clear", reply, err)
			if err == nil && code == replyElse {
				err = ErrReady
			}
			if err != nil {
				return removed, fmt.Errorf("tenant %s: %w", tenant, err)
			}
			removed += len(chunk)
		}
	}
	return removed, nil
}
