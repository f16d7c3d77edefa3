package ledger

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"

	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/window"
)

// Kind says why an entry is in the ledger. The values are those of the column entry_kind.
type Kind string

// Kinds of entries.
const (
	Usage       Kind = "USAGE"
	Correction  Kind = "CORRECTION"
	Reversal    Kind = "REVERSAL"
	Unsettled   Kind = "UNSETTLED"
	Termination Kind = "CIRCUIT_BREAKER_TERMINATION"
	Adjustment  Kind = "ADJUSTMENT"
)

// Status is how the call ended, as its caller said; empty if it did not.
type Status string

// The statuses of a call.
const (
	Success Status = "SUCCESS"
	Failed  Status = "FAILED"
	Partial Status = "PARTIAL"
)

// OwnMode says who adds an own amount to the tenant's counters; empty = the entry is external.
type OwnMode string

// The modes of an own amount (ADR 0001).
const (
	Direct  OwnMode = "direct"
	Journal OwnMode = "journal"
)

// Flags that this package sets. Those of the normaliser and of the price book are passed on beside them.
const (
	FlagUnpriced  = "unpriced"  // no rate was known: costs are absent, which is not zero
	FlagEstimated = "estimated" // the caller could not say what was used: the estimate was charged
	// FlagSharedResponse: two reservations were settled with one response of a provider; both are charged.
	FlagSharedResponse = "shared_response"
)

// MeterEstimate is the one line of an estimate that cannot be itemised.
const MeterEstimate = "estimate"

// Line is one meter of one entry. Raw = Quantity × Rate, rounded once; Billed is Raw with the markup.
type Line struct {
	Meter    string
	Quantity money.Decimal
	// Rate is USD per unit; nil with Raw and Billed when the entry is unpriced.
	Rate        *money.Decimal
	Raw, Billed *money.USD
}

// Lineage places an entry in its execution tree.
type Lineage struct {
	RootExecutionID, ParentAgentID, AgentID, CostCenter string
	// Depth is 0 for the root's own agent.
	Depth           int32
	TraceID, SpanID string
}

// Position is where the source event stood.
type Position struct {
	Topic     string
	Partition int32
	Offset    int64
}

// Entry is one immutable line of the books.
type Entry struct {
	ID       string
	Kind     Kind
	TenantID string
	// EventTime is when it counts: reserved-at where there was a reservation, else the event's own time.
	EventTime time.Time
	// RecordedAt is the broker's timestamp of the source record.
	RecordedAt time.Time

	// Source and EventID are the identity of the event; ResponseID with Provider is a second one.
	Source, EventID, ResponseID string
	ContentHash                 [sha256.Size]byte

	Provider, Model, ServiceTier string
	Status                       Status
	ErrorCode                    string
	Flags                        []string // sorted

	Lines                     []Line
	InputTokens, OutputTokens int64
	// Raw and Billed are the sums of the lines; nil = unpriced.
	Raw, Billed  *money.USD
	PriceVersion string
	Markup       money.Percent

	Lineage      Lineage
	Windows      window.Keys
	PostedPeriod int32 // YYYYMM
	// Scopes are the sub-scopes of the tenant that the entry counts in too: of a reservation those in which it was admitted,
	// else those of the contract at EventTime. Sorted, at most one of each kind; besides
	// them the branches of the execution.
	Scopes []window.Scope
	// APIKeyID is the key that reserved, or sent the event through admission; empty where none did, or nobody proved it.
	APIKeyID string

	ReservationID string
	ReservedAt    time.Time
	OwnMode       OwnMode
	// Own is what admission applied to the tenant's own counters, External what counts besides, signed; Held what the
	// reservation held. All in nano-dollars.
	Own, External, Held money.Nano
	Epoch               int64

	ReversesID string
	At         Position

	RawUsage          []byte
	NormaliserVersion string

	// Marker is set in an EpochMarker alone, which has ID, RecordedAt and At besides, and nothing else.
	Marker *Marker
}

// EntryID is "e_" and the first 16 bytes, in hex, of the SHA-256 of tenant, source, event id and stage.
func EntryID(tenant, source, eventID, stage string) string {
	sum := sha256.Sum256([]byte(tenant + "\x00" + source + "\x00" + eventID + "\x00" + stage))
	return "e_" + hex.EncodeToString(sum[:16])
}

// Has reports whether the entry carries a flag.
func (e Entry) Has(flag string) bool { return slices.Contains(e.Flags, flag) }

// Priced reports whether the entry has a cost.
func (e Entry) Priced() bool { return e.Raw != nil }

// IsOwn reports whether the amount stands in the tenant's own counters.
func (e Entry) IsOwn() bool { return e.OwnMode != "" }

// primary reports whether the entry makes its event known.
func (e Entry) primary() bool { return e.Kind != Reversal }

// reverse returns the exact negative of e, booked because of the event cause (another entry, or e itself).
func (e Entry) reverse(cause Entry, stage string) Entry {
	r := e
	r.ID, r.Kind, r.ReversesID = EntryID(cause.TenantID, cause.Source, cause.EventID, stage), Reversal, e.ID
	r.Source, r.EventID, r.ContentHash = cause.Source, cause.EventID, cause.ContentHash
	r.RecordedAt, r.At = cause.RecordedAt, cause.At
	r.Flags = slices.Clone(e.Flags)
	r.InputTokens, r.OutputTokens = -e.InputTokens, -e.OutputTokens
	r.Raw, r.Billed = negative(e.Raw), negative(e.Billed)
	r.Lines = make([]Line, len(e.Lines))
	for i, l := range e.Lines {
		r.Lines[i] = Line{Meter: l.Meter, Quantity: money.Decimal{}.Sub(l.Quantity), Rate: l.Rate, Raw: negative(l.Raw), Billed: negative(l.Billed)}
	}
	// Whoever added the amount, what takes it back is external: Redis has only one party that knows of it.
	r.OwnMode, r.Own, r.External, r.Held, r.Epoch = "", 0, -(e.Own + e.External), 0, 0
	r.RawUsage = nil
	return r
}

func negative(a *money.USD) *money.USD {
	if a == nil {
		return nil
	}
	n := a.Neg()
	return &n
}

// Delta is what the entry adds to the totals of its windows.
func (e Entry) Delta() window.Delta {
	d := window.Delta{Own: e.Own, External: e.External, InputTokens: e.InputTokens, OutputTokens: e.OutputTokens,
		EventTime: e.EventTime, Depth: e.Lineage.Depth}
	sign := int64(1)
	if e.Kind == Reversal {
		sign = -1
	}
	if e.Priced() {
		d.Raw, d.Billed = *e.Raw, *e.Billed
	} else {
		d.Unpriced = sign
	}
	if e.Has(FlagEstimated) {
		d.Estimated = sign
	}
	return d
}
