package budgetaggregator

import (
	"fmt"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/weir-project/weir/pkg/domain/ledger"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/window"
	"github.com/weir-project/weir/pkg/gen/weirv1"
	"github.com/weir-project/weir/pkg/ledgercodec"
)

// key names one total.
type key struct {
	tenant string
	// scope is whose total it is; id names the execution or sub-scope, "" for the tenant itself.
	scope  weirv1.ScopeKind
	id     string
	kind   weirv1.WindowKind
	window int64
}

// keysOf lists the totals that an entry counts in: four of its tenant, that of its execution if it has one, three of each
// sub-scope that the attributor stamped on it, at most one of each kind, so at most nine, and one of each branch.
func keysOf(e ledger.Entry) []key {
	of := func(kind weirv1.WindowKind, window int64) key {
		return key{tenant: e.TenantID, scope: weirv1.ScopeKind_SCOPE_KIND_TENANT, kind: kind, window: window}
	}
	keys := []key{
		of(weirv1.WindowKind_WINDOW_KIND_MINUTE, e.Windows.Minute), of(weirv1.WindowKind_WINDOW_KIND_HOUR, e.Windows.Hour),
		of(weirv1.WindowKind_WINDOW_KIND_DAY, int64(e.Windows.Day)), of(weirv1.WindowKind_WINDOW_KIND_MONTH, int64(e.Windows.Month)),
	}
	for _, k := range keys {
		for _, s := range e.Scopes {
			if k.kind != weirv1.WindowKind_WINDOW_KIND_HOUR && s.Kind != window.Branch { // no ceiling is about an hour
				keys = append(keys, key{k.tenant, ledgercodec.ScopeKind(s.Kind), s.ID, k.kind, k.window})
			}
		}
	}
	if root := e.Lineage.RootExecutionID; root != "" {
		keys = append(keys, key{e.TenantID, weirv1.ScopeKind_SCOPE_KIND_EXECUTION, root, weirv1.WindowKind_WINDOW_KIND_EXECUTION, 0})
	}
	return append(keys, branchesOf(e)...)
}

// text is the record key: fields separated by a zero byte, which no id contains.
//
//	tenant \0 minute|hour|day|month \0 window
//	tenant \0 execution \0 root execution
//	tenant \0 execution_branch \0 branch
//	tenant \0 cost_center|agent|api_key \0 name \0 minute|day|month \0 window
func (k key) text() string {
	switch k.scope {
	case weirv1.ScopeKind_SCOPE_KIND_EXECUTION:
		return k.tenant + "\x00execution\x00" + k.id
	case weirv1.ScopeKind_SCOPE_KIND_EXECUTION_BRANCH:
		return k.tenant + "\x00" + string(window.Branch) + "\x00" + k.id
	case weirv1.ScopeKind_SCOPE_KIND_TENANT:
		return k.tenant + "\x00" + kindName(k.kind) + "\x00" + strconv.FormatInt(k.window, 10)
	}
	return k.tenant + "\x00" + string(ledgercodec.ScopeOf(k.scope)) + "\x00" + k.id + "\x00" + kindName(k.kind) + "\x00" + strconv.FormatInt(k.window, 10)
}

func kindName(k weirv1.WindowKind) string {
	switch k {
	case weirv1.WindowKind_WINDOW_KIND_MINUTE:
		return "minute"
	case weirv1.WindowKind_WINDOW_KIND_HOUR:
		return "hour"
	case weirv1.WindowKind_WINDOW_KIND_DAY:
		return "day"
	case weirv1.WindowKind_WINDOW_KIND_MONTH:
		return "month"
	default:
		return ""
	}
}

// encode writes a total; the same total always gives the same bytes.
func encode(k key, t window.Total, generation int64) ([]byte, error) {
	value, err := marshal(message(k, t, generation))
	if err != nil {
		return nil, fmt.Errorf("encode total %q: %w", k.text(), err)
	}
	return value, nil
}

func message(k key, t window.Total, generation int64) *weirv1.WindowTotal {
	m := &weirv1.WindowTotal{
		TenantId: k.tenant, ScopeKind: k.scope, ScopeId: k.id, Kind: k.kind, Window: k.window, Version: t.Version, Generation: generation,
		OwnNanos: int64(t.Own), ExternalNanos: int64(t.External), RawCostUsd: t.Raw.String(), BilledCostUsd: t.Billed.String(),
		InputTokens: t.InputTokens, OutputTokens: t.OutputTokens, Entries: t.Entries, UnpricedEntries: t.UnpricedEntries,
		EstimatedEntries: t.EstimatedCount, LatestEventTime: timestamppb.New(t.Latest),
	}
	if k.kind == weirv1.WindowKind_WINDOW_KIND_EXECUTION {
		m.MaxDepth = t.MaxDepth
	}
	return m
}

// decode reads a total that encode wrote. Of a record of a base (BaseEpoch is not 0) it returns the message alone, for it is
// no total of now. Anything else is an error.
func decode(value []byte) (key, window.Total, *weirv1.WindowTotal, error) {
	m := new(weirv1.WindowTotal)
	if err := proto.Unmarshal(value, m); err != nil {
		return key{}, window.Total{}, nil, fmt.Errorf("decode total: %w", err)
	}
	if m.GetBaseEpoch() != 0 {
		return key{}, window.Total{}, m, nil
	}
	k := key{m.GetTenantId(), m.GetScopeKind(), m.GetScopeId(), m.GetKind(), m.GetWindow()}
	if !k.valid() || m.GetVersion() < 1 {
		return k, window.Total{}, nil, fmt.Errorf("decode total: tenant %q, scope %s %q, kind %s, version %d", k.tenant, k.scope, k.id, k.kind, m.GetVersion())
	}
	t := window.Total{
		Version: m.GetVersion(), Own: money.Nano(m.GetOwnNanos()), External: money.Nano(m.GetExternalNanos()),
		InputTokens: m.GetInputTokens(), OutputTokens: m.GetOutputTokens(), Entries: m.GetEntries(), UnpricedEntries: m.GetUnpricedEntries(),
		EstimatedCount: m.GetEstimatedEntries(), Latest: latest(m.GetLatestEventTime()), MaxDepth: m.GetMaxDepth(),
	}
	var err error
	if t.Raw, err = money.ParseUSD(m.GetRawCostUsd()); err != nil {
		return k, t, nil, fmt.Errorf("decode total %q: raw cost: %w", k.text(), err)
	}
	if t.Billed, err = money.ParseUSD(m.GetBilledCostUsd()); err != nil {
		return k, t, nil, fmt.Errorf("decode total %q: billed cost: %w", k.text(), err)
	}
	return k, t, m, nil
}

// valid reports whether keysOf could have made k.
func (k key) valid() bool {
	switch k.scope {
	case weirv1.ScopeKind_SCOPE_KIND_EXECUTION, weirv1.ScopeKind_SCOPE_KIND_EXECUTION_BRANCH:
		return k.tenant != "" && k.id != "" && k.kind == weirv1.WindowKind_WINDOW_KIND_EXECUTION && k.window == 0
	case weirv1.ScopeKind_SCOPE_KIND_TENANT:
		return k.tenant != "" && k.id == "" && kindName(k.kind) != ""
	}
	named := ledgercodec.ScopeOf(k.scope) != "" && k.id != ""
	return k.tenant != "" && named && kindName(k.kind) != "" && k.kind != weirv1.WindowKind_WINDOW_KIND_HOUR
}

func latest(at *timestamppb.Timestamp) time.Time {
	if at == nil {
		return time.Time{}
	}
	return at.AsTime()
}
