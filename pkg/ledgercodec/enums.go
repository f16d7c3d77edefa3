package ledgercodec

import (
	"github.com/weir-project/weir/pkg/domain/ledger"
	"github.com/weir-project/weir/pkg/domain/window"
	"github.com/weir-project/weir/pkg/gen/weirv1"
)

// enum pairs our values with those of the wire. What is not in it is unspecified on the wire, and "" here.
type enum[Ours ~string, Wire ~int32] []struct {
	ours Ours
	wire Wire
}

func (e enum[Ours, Wire]) encode(v Ours) Wire {
	for _, pair := range e {
		if pair.ours == v {
			return pair.wire
		}
	}
	return 0
}

func (e enum[Ours, Wire]) decode(v Wire) Ours {
	for _, pair := range e {
		if pair.wire == v {
			return pair.ours
		}
	}
	return ""
}

var kinds = enum[ledger.Kind, weirv1.EntryKind]{
	{ledger.Usage, weirv1.EntryKind_ENTRY_KIND_USAGE},
	{ledger.Correction, weirv1.EntryKind_ENTRY_KIND_CORRECTION},
	{ledger.Reversal, weirv1.EntryKind_ENTRY_KIND_REVERSAL},
	{ledger.Unsettled, weirv1.EntryKind_ENTRY_KIND_UNSETTLED},
	{ledger.Termination, weirv1.EntryKind_ENTRY_KIND_CIRCUIT_BREAKER_TERMINATION},
	{ledger.Adjustment, weirv1.EntryKind_ENTRY_KIND_ADJUSTMENT},
	{ledger.EpochMarker, weirv1.EntryKind_ENTRY_KIND_EPOCH_MARKER},
}

var statuses = enum[ledger.Status, weirv1.CallStatus]{
	{ledger.Success, weirv1.CallStatus_CALL_STATUS_SUCCESS},
	{ledger.Failed, weirv1.CallStatus_CALL_STATUS_FAILED},
	{ledger.Partial, weirv1.CallStatus_CALL_STATUS_PARTIAL},
}

var ownModes = enum[ledger.OwnMode, weirv1.OwnMode]{
	{ledger.Direct, weirv1.OwnMode_OWN_MODE_DIRECT},
	{ledger.Journal, weirv1.OwnMode_OWN_MODE_JOURNAL},
}

var phases = enum[ledger.Phase, weirv1.EpochPhase]{
	{ledger.Raised, weirv1.EpochPhase_EPOCH_PHASE_RAISED},
	{ledger.Barrier, weirv1.EpochPhase_EPOCH_PHASE_BARRIER},
}

var scopeKinds = enum[window.ScopeKind, weirv1.ScopeKind]{
	{window.CostCenter, weirv1.ScopeKind_SCOPE_KIND_COST_CENTER},
	{window.Agent, weirv1.ScopeKind_SCOPE_KIND_AGENT},
	{window.APIKey, weirv1.ScopeKind_SCOPE_KIND_API_KEY},
	{window.Branch, weirv1.ScopeKind_SCOPE_KIND_EXECUTION_BRANCH},
}

// ScopeKind is the wire form of a kind of sub-scopes, or of branches; unspecified for one that is not known.
func ScopeKind(k window.ScopeKind) weirv1.ScopeKind { return scopeKinds.encode(k) }

// ScopeOf is the inverse; "" for what is neither.
func ScopeOf(k weirv1.ScopeKind) window.ScopeKind { return scopeKinds.decode(k) }
