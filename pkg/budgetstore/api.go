package budgetstore

import (
	"time"

	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/window"
)

// Tenant names whose counters a call is about, and the epoch that the caller
// believes the store is in. Another epoch there: ErrEpoch.
type Tenant struct {
	ID    string
	Epoch int64
}

// Request is one reservation to decide.
type Request struct {
	Tenant Tenant
	ID     string // reservation id, the idempotency key
	// Fingerprint is admit.Content.Fingerprint: another content under the same id is a conflict.
	Fingerprint admit.Fingerprint
	Estimate    admit.Estimate
	// Saving is the estimate at the plan's cheaper model, reserved instead of
	// Estimate from rung 2 on; nil without one.
	Saving *admit.Estimate
	// Effect: from rung 2 on a write is refused.
	Effect admit.Effect
	// Scopes are the sub-scopes that the call counts in, at most admit.MaxScopes.
	Scopes    []ScopeLimit
	Execution admit.Execution
	Limits    admit.Limits
	Calendar  admit.Calendar
	Lease     time.Duration
	// Context is kept with the hold and given back by replays, Hold and Due:
	// what the caller needs to rebuild its answer or to write the UNSETTLED
	// entry. At most MaxContext bytes.
	Context []byte
}

// ScopeLimit is one sub-scope with its ceilings.
type ScopeLimit = admit.ScopeLimit

// Verdict is how Reserve ended.
type Verdict uint8

// Verdicts of Reserve.
const (
	Admitted Verdict = iota
	// Replayed: the same reservation is open already; Answer and Context are the first ones.
	Replayed
	// Refused: Refusal says why.
	Refused
	// Conflict: the id is open with another content.
	Conflict
	// Ended: the id was used by a reservation that has ended, and is still remembered.
	Ended
)

// Reply is the decision on one Request.
type Reply struct {
	Verdict Verdict
	Answer  admit.Answer  // Admitted, Replayed
	Refusal admit.Refusal // Refused
	Context []byte        // Replayed: what the first call brought
}

// HoldState is where an open reservation stands in its life.
type HoldState uint8

// States of a hold that the store still has.
const (
	HoldOpen HoldState = iota
	// HoldExpiring: the lease ran out; the estimate stays counted, concurrency is freed.
	HoldExpiring
)

// Hold is one reservation that is still held.
type Hold struct {
	ID          string
	State       HoldState
	Fingerprint admit.Fingerprint
	Root        string // root execution, "" without one
	Scopes      []window.Scope
	Branches    []string // of the execution that it counts in
	LeaseUntil  time.Time
	// Held is what it holds now: Answer.Reserved plus any growth.
	Held    admit.Estimate
	Answer  admit.Answer
	Context []byte
}

// Ref names one hold exactly: an id may be used again after its end, but
// never at the same time.
type Ref struct {
	Tenant     Tenant
	ID         string
	ReservedAt time.Time
	// Root is the hold's root execution, where the caller knows it: that saves
	// what ends the hold a read. Another one, or "", does no harm.
	Root string
}

// Ending is what a script that ends a hold found.
type Ending struct {
	// Applied: the hold was there and is closed now. False: nothing was changed.
	Applied bool
	Held    admit.Estimate // what it held, if Applied
}

// ExtendRequest moves the lease of an open hold, and grows it when the call
// has already used more than was estimated.
type ExtendRequest struct {
	Ref
	Lease time.Duration // from now; never shortens the lease
	// AtLeast is what must be held from now on. Figures at or below what is
	// held change nothing; zero is a plain heartbeat.
	AtLeast admit.Estimate
	Limits  admit.Limits
	// Scopes are the ceilings of its sub-scopes; one that is not named does not stop it.
	Scopes   []ScopeLimit
	Branches []admit.Branch // and their limits, in which it counts
	Calendar admit.Calendar
}

// ExtendReply tells the holder to go on or to stop.
type ExtendReply struct {
	// Found is false when no such hold is open (ended, expiring, unknown).
	Found bool
	// Stop: the growth does not fit or the execution was revoked; Refusal says
	// which. Nothing was changed, the lease included.
	Stop       bool
	Refusal    admit.Refusal
	LeaseUntil time.Time
	Held       admit.Estimate
}

// JournalKind says who adds an entry's own amount (ADR own + external).
type JournalKind uint8

// Kinds of journal entries that concern the store.
const (
	// Direct: a script has replaced the hold by the amount; repeated only if the hold is still there.
	Direct JournalKind = iota
	// Journal: no script applied it; added here, once, and a hold of that id is dropped.
	Journal
	// External: counted by the aggregator; a hold of that id is closed at own 0.
	External
)

// JournalEntry is one ledger entry of a tenant that names a reservation.
type JournalEntry struct {
	Offset        int64
	Kind          JournalKind
	ReservationID string
	ReservedAt    time.Time
	Day           int32 // window key of the entry, which its month follows from
	Root          string
	Scopes        []ScopeRef // that the entry counts in, branches among them
	// Actual is the own amount and the tokens used.
	Actual admit.Estimate
	// Lost: its hold was of an earlier epoch. Where the counters were made without it, the call of its execution is not counted yet.
	Lost bool
	// Said is what was held, as whoever ended the reservation had it. Held is set by ApplyJournal, where a Direct or Journal
	// entry has ended a hold: what that held.
	Said, Held money.Nano
}

// Scope is what an external total belongs to.
type Scope uint8

// Scopes of external totals.
const (
	MinuteScope    Scope = iota // Window: Unix seconds of the minute's start
	DayScope                    // Window: YYYYMMDD
	MonthScope                  // Window: YYYYMM
	ExecutionScope              // Root
	BranchScope                 // Root is the branch's id
)

// ExternalTotal is a cumulative amount of usage that never asked.
type ExternalTotal struct {
	Scope  Scope
	Window int64
	Root   string
	// SubScope is whose minute, day or month it is; zero: the tenant's own.
	SubScope ScopeRef
	Version  int64 // only a higher version than the one held is taken
	Nanos    money.Nano
}

// ExecutionState is what the store knows of a root execution.
type ExecutionState struct {
	Limits                 admit.ExecutionLimits
	Own, Held, External    money.Nano // Own includes Held
	Calls                  int64
	Revoked, Closed, Known bool
}

// WindowUse is one window of dollars.
type WindowUse struct {
	Label    int32      // day or month; 0 for the minute
	Own      money.Nano // settled and held
	Held     money.Nano // of Own, what open holds may still give back; always 0 for the minute
	External money.Nano
}

// Used is what counts against the ceiling.
func (w WindowUse) Used() money.Nano { return w.Own + w.External }

// Budget is a tenant's counters at one instant.
type Budget struct {
	At                                  time.Time // the store's clock
	Ready                               bool
	JournalOffset                       int64 // next offset to be applied
	Minute, Day, Month                  WindowUse
	Requests, InputTokens, OutputTokens int64 // in the sliding minute
	Concurrency                         int64 // open holds whose lease runs
	Expiring                            int64 // holds that wait for the reaper
	// Leaves is, where the month is the last 30 days and something of them is used, the label of the day with which, when
	// it leaves, there is room again, or more of it: admit.LeavesAt says when. Else 0.
	Leaves int32
}
