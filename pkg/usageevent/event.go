package usageevent

import (
	"encoding/json"
	"time"

	"github.com/weir-project/weir/pkg/domain/money"
)

// Event types.
const (
	// TypeUsage is one provider call, from anybody.
	TypeUsage = "weir.usage.v1"
	// TypeUnsettled is a hold whose owner never settled, from admission's reaper.
	TypeUnsettled = "weir.unsettled.v1"
	// TypeTermination is the end of an execution, from the breaker.
	TypeTermination = "weir.termination.v1"
)

// Sources of Weir's own events. Their ids contain a client's id, so they may be longer (MaxOwnID).
const (
	SourceAdmission = "weir/admission"
	SourceBreaker   = "weir/breaker"
)

// Bounds of one event, in bytes. MaxBytes is the record bound of usage.events.v1.
const (
	MaxBytes  = 1 << 20
	MaxID     = 128
	MaxOwnID  = 256
	MaxText   = 512
	MaxToken  = 8 << 10
	MaxMeters = 64
	// MaxBranches bounds the branches that a reservation counts in: as many as an execution token has.
	MaxBranches = 8
)

// maxIDOf bounds the id of an event of a source.
func maxIDOf(source string) int {
	if source == SourceAdmission || source == SourceBreaker {
		return MaxOwnID
	}
	return MaxID
}

// Event is one CloudEvent. Subject is the tenant as its sender claims it; what counts is decided by the reader's trust.
type Event struct {
	ID, Source, Type, Subject string
	// Time is when it happened, UTC; zero if the sender did not say.
	Time time.Time
	Data Data
}

// Data is the event's payload. Empty means absent throughout.
type Data struct {
	// ExecutionToken is a credential, not content: it is no part of ContentHash.
	ExecutionToken  string
	RootExecutionID string
	ParentAgentID   string
	AgentID         string
	CostCenter      string
	Provider        string
	Model           string
	// API names the shape of Usage ("chat", "messages", …).
	API string
	// Usage is the provider's usage object as sent; nil if Meters are given, or nothing is known.
	Usage json.RawMessage
	// ordered: Usage came by SetUsage, so it is written as it is, and no other may take its place.
	ordered bool
	// Meters are quantities per disjoint meter, never negative.
	Meters      map[string]money.Decimal
	ServiceTier string
	// CacheHit is CacheExact or CacheSemantic where a cache answered in the provider's stead, at $0.
	CacheHit string
	// Status is SUCCESS, FAILED, PARTIAL or empty.
	Status        string
	ErrorCode     string
	ReservationID string
	// ResponseID is the provider's id of the response: a second identity of the same call.
	ResponseID  string
	Traceparent string
	Tracestate  string
	// APIKeyID is the key that reserved, or that sent the event to admission. Like Reservation it is believed only in an
	// event that admission signed; like ExecutionToken it is no part of ContentHash.
	APIKeyID string
	// Reservation is believed only in an event that admission signed.
	Reservation *Reservation
	// Marker is all there is in an event of TypeEpoch, and nowhere else.
	Marker *Marker
}

func isStatus(s string) bool { return s == "SUCCESS" || s == "FAILED" || s == "PARTIAL" }

// Outcomes of a reservation, as admission reports them.
const (
	OutcomeSettled   = "settled"
	OutcomeEstimated = "estimated"
	OutcomeLate      = "late"
	OutcomeUnsettled = "unsettled"
)

func isOutcome(s string) bool {
	return s == OutcomeSettled || s == OutcomeEstimated || s == OutcomeLate || s == OutcomeUnsettled
}

// Own modes: who adds the amount to the tenant's own counters (ADR 0001).
const (
	OwnModeDirect  = "direct"
	OwnModeJournal = "journal"
)

func isOwnMode(s string) bool { return s == OwnModeDirect || s == OwnModeJournal }

// Reservation is what admission knew about the hold when it wrote the event.
type Reservation struct {
	ReservedAt time.Time
	// Outcome is one of the Outcome constants.
	Outcome string
	// OwnMode is OwnModeDirect, OwnModeJournal or empty (not own).
	OwnMode string
	// OwnNanos is what admission applied or will apply, HeldNanos what the hold was, both in nano-dollars.
	OwnNanos, HeldNanos money.Nano
	// Epoch is the Redis epoch of the hold.
	Epoch int64
	// Day is the day, YYYYMMDD, that the hold is charged to in Redis: by the contract that admission knew when it reserved. 0: it
	// is not said.
	Day int32
	// EstimateUSD is the priced estimate; nil when the model had no price.
	EstimateUSD *money.USD
	// Estimate are the meters of the estimate.
	Estimate     map[string]money.Decimal
	PriceVersion string
	Depth        int32
	// Flags are what admission saw: FlagDearerModel.
	Flags []string
	// Scopes are the tenant's sub-scopes that the hold counted in: their names by kind (cost_center, agent, api_key).
	Scopes map[string]string
	// Branches are the ids of the execution's branches that it counted in, at most MaxBranches.
	Branches []string
}
