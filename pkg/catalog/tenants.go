package catalog

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/gen/weirv1"
)

// Bad is told of each record that did not decode.
type Bad func(topic string, key string, err error)

// Tenants is the current copy of catalog.tenants.v1. Safe for concurrent use.
type Tenants struct {
	bad Bad
	mu  sync.RWMutex
	by  map[string]tenant.History
	// lists are the tenants that list an external identity in any version of theirs.
	lists map[string][]string
}

// NewTenants is an empty copy; feed it with Apply through bus.Follow.
func NewTenants(bad Bad) *Tenants {
	return &Tenants{bad: bad, by: map[string]tenant.History{}, lists: map[string][]string{}}
}

// Apply takes one record of catalog.tenants.v1; it never fails.
func (t *Tenants) Apply(r bus.Record) error {
	id := string(r.Key)
	if r.Value == nil {
		t.mu.Lock()
		t.index(id, t.by[id], tenant.History{})
		delete(t.by, id)
		t.mu.Unlock()
		return nil
	}
	h, err := DecodeTenant(r.Value)
	if err != nil {
		t.bad(r.Topic.Name(), id, err)
		return nil
	}
	t.mu.Lock()
	t.index(id, t.by[id], h)
	t.by[id] = h
	t.mu.Unlock()
	return nil
}

// At is the contract of a tenant in force at a time; false if there is no such tenant.
func (t *Tenants) At(id string, at time.Time) (tenant.Contract, bool) {
	h, ok := t.History(id)
	if !ok {
		return tenant.Contract{}, false
	}
	return h.At(at)
}

// InForce is At without a copy, nil for none. It is shared: nobody changes it.
func (t *Tenants) InForce(id string, at time.Time) *tenant.Contract {
	h, _ := t.History(id)
	return h.InForce(at)
}

// History is every version of a tenant's contract.
func (t *Tenants) History(id string) (tenant.History, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	h, ok := t.by[id]
	return h, ok
}

// IDs lists all tenants, removed ones too (they may still have holds to expire), in order.
func (t *Tenants) IDs() []string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.Sorted(maps.Keys(t.by))
}

// EncodeTenant is the value of catalog.tenants.v1 for a history.
func EncodeTenant(h tenant.History) ([]byte, error) {
	m := &weirv1.TenantHistory{TenantId: h.ID}
	for _, c := range h.Versions {
		v := &weirv1.TenantVersion{
			EffectiveFrom: timestamppb.New(c.EffectiveFrom), PublishedAt: timestamppb.New(c.PublishedAt),
			Removed: c.Removed, Plan: c.Plan,
			Limits: &weirv1.TenantLimits{
				RequestsPerMinute: c.Limits.RequestsPerMinute, InputTokensPerMinute: c.Limits.InputTokensPerMinute,
				OutputTokensPerMinute: c.Limits.OutputTokensPerMinute, Concurrency: c.Limits.Concurrency,
				OpenExecutions: c.Limits.OpenExecutions,
			},
			Ceilings: &weirv1.TenantCeilings{
				MinuteUsd: c.Ceilings.Minute.USD().String(), DayUsd: c.Ceilings.Day.USD().String(), MonthUsd: c.Ceilings.Month.USD().String(),
			},
			MarkupPercent: c.Markup.String(), Timezone: c.Timezone, Count: string(c.Count),
			OverrunPercent: c.Overrun.String(), Month: string(c.Month), LadderPercent: c.Ladder[:], Identities: c.Identities,
			Execution: &weirv1.ExecutionLimits{
				MaxCostUsd: c.Execution.MaxCost.USD().String(), MaxDepth: c.Execution.MaxDepth, MaxCalls: c.Execution.MaxCalls,
			},
			Ladder: encodeActions(c.Actions), Scopes: encodeScopes(c.Scopes), UnknownPrice: string(c.UnknownPrice),
		}
		if c.SoftDay {
			v.Soft = []string{"day"}
		}
		m.Versions = append(m.Versions, v)
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode tenant %s: %w", h.ID, err)
	}
	return b, nil
}

// DecodeTenant reads a value of catalog.tenants.v1 and validates every version that is not a removal.
func DecodeTenant(value []byte) (tenant.History, error) {
	m := new(weirv1.TenantHistory)
	if err := proto.Unmarshal(value, m); err != nil {
		return tenant.History{}, fmt.Errorf("tenant history: %w", err)
	}
	if m.GetTenantId() == "" || len(m.GetVersions()) == 0 {
		return tenant.History{}, fmt.Errorf("tenant history of %q without id or versions", m.GetTenantId())
	}
	h := tenant.History{ID: m.GetTenantId()}
	for i, v := range m.GetVersions() {
		c, err := decodeContract(v)
		if err == nil && !c.Removed {
			err = c.Validate()
		}
		if err != nil {
			return tenant.History{}, fmt.Errorf("tenant %s version %d: %w", h.ID, i, err)
		}
		h.Versions = append(h.Versions, c)
	}
	return h, nil
}

func decodeContract(v *weirv1.TenantVersion) (tenant.Contract, error) {
	l, e := v.GetLimits(), v.GetExecution()
	c := tenant.Contract{
		EffectiveFrom: v.GetEffectiveFrom().AsTime(), PublishedAt: v.GetPublishedAt().AsTime(), Removed: v.GetRemoved(), Plan: v.GetPlan(),
		Limits: tenant.Limits{
			RequestsPerMinute: reachable(l.GetRequestsPerMinute()), InputTokensPerMinute: reachable(l.GetInputTokensPerMinute()),
			OutputTokensPerMinute: reachable(l.GetOutputTokensPerMinute()), Concurrency: reachable(l.GetConcurrency()), OpenExecutions: reachable(l.GetOpenExecutions()),
		},
		Count: tenant.Count(v.GetCount()), SoftDay: slices.Contains(v.GetSoft(), "day"), Timezone: v.GetTimezone(),
		Month: tenant.MonthKind(v.GetMonth()), Execution: tenant.Execution{MaxDepth: e.GetMaxDepth(), MaxCalls: reachable(e.GetMaxCalls())},
		Identities: v.GetIdentities(), Actions: decodeActions(v.GetLadder()), UnknownPrice: tenant.UnknownPrice(v.GetUnknownPrice()),
	}
	if copy(c.Ladder[:], v.GetLadderPercent()) != len(c.Ladder) {
		return c, fmt.Errorf("ladder of %d steps", len(v.GetLadderPercent()))
	}
	for _, f := range []struct {
		text string
		to   *money.Nano
	}{
		{v.GetCeilings().GetMinuteUsd(), &c.Ceilings.Minute},
		{v.GetCeilings().GetDayUsd(), &c.Ceilings.Day},
		{v.GetCeilings().GetMonthUsd(), &c.Ceilings.Month},
		{e.GetMaxCostUsd(), &c.Execution.MaxCost},
	} {
		if err := readNano(f.text, f.to); err != nil {
			return c, err
		}
	}
	var err error
	if c.Scopes, err = decodeScopes(v.GetScopes()); err != nil {
		return c, err
	}
	if c.Overrun, err = money.ParsePercent(v.GetOverrunPercent()); err != nil {
		return c, fmt.Errorf("overrun: %w", err)
	}
	if c.Markup, err = money.ParsePercent(v.GetMarkupPercent()); err != nil {
		return c, fmt.Errorf("markup: %w", err)
	}
	return c, nil
}

// reachable is a limit as contracts may state it. Some were published before there was a bound, and their tenants must not be
// lost: beyond what a counter can reach one limit is like another.
func reachable(limit int64) int64 { return min(limit, tenant.MaxLimit) }

// readNano reads dollars as nano-dollars, rounded up.
func readNano(text string, to *money.Nano) error {
	usd, err := money.ParseUSD(text)
	if err == nil {
		*to, err = money.CeilNano(usd)
	}
	if err != nil {
		return fmt.Errorf("amount %q: %w", text, err)
	}
	return nil
}
