package admission

import (
	"encoding/json"

	"github.com/weir-project/weir/pkg/domain/ladder"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/window"
	"github.com/weir-project/weir/pkg/usageevent"
)

// The JSON of the API, as openapi.json describes it. Requests are decoded strictly; optional members are zero where absent.

type executionRequest struct {
	RootExecutionID string     `json:"root_execution_id"`
	ParentToken     token      `json:"parent_token"`
	AgentID         string     `json:"agent_id"`
	CostCenter      string     `json:"cost_center"`
	MaxCostUSD      *money.USD `json:"max_cost_usd"`
	MaxDepth        *int       `json:"max_depth"`
}

type executionAnswer struct {
	RootExecutionID string     `json:"root_execution_id"`
	AgentID         string     `json:"agent_id"`
	Depth           int        `json:"depth"`
	MaxDepth        int        `json:"max_depth,omitempty"`
	MaxCostUSD      *money.USD `json:"max_cost_usd,omitempty"`
	// BranchID is what refusals call that limit where it is a child's own, or that of a child above; absent: it is the root's.
	BranchID  string `json:"branch_id,omitempty"`
	Token     string `json:"token"`
	ExpiresAt string `json:"expires_at"`
}

type reserveRequest struct {
	ReservationID  string     `json:"reservation_id"`
	Provider       string     `json:"provider"`
	Model          string     `json:"model"`
	Estimate       quantities `json:"estimate"`
	Effect         string     `json:"effect"`
	ExecutionToken token      `json:"execution_token"`
	AgentID        string     `json:"agent_id"`
	ParentAgentID  string     `json:"parent_agent_id"`
	CostCenter     string     `json:"cost_center"`
	LeaseSeconds   int64      `json:"lease_seconds"`
}

type reserveAnswer struct {
	ReservationID string             `json:"reservation_id"`
	State         string             `json:"state"`
	Rung          ladder.Rung        `json:"rung"`
	Mode          string             `json:"mode"`
	Model         string             `json:"model"`
	Cache         cacheAnswer        `json:"cache"`
	PercentUsed   int64              `json:"percent_used"`
	Message       string             `json:"message"`
	Reserved      amounts            `json:"reserved"`
	Remaining     remaining          `json:"remaining"`
	Execution     *executionPosition `json:"execution"`
	Receipt       string             `json:"receipt"`
	ReservedAt    string             `json:"reserved_at"`
	ExpiresAt     string             `json:"expires_at"`
	// Flags: dearest_rate.
	Flags []string `json:"flags,omitempty"`
}

// batchRequest has each reservation as it came: what is wrong with one is answered for that one alone.
type batchRequest struct {
	Reservations []json.RawMessage `json:"reservations"`
}

type batchAnswer struct {
	Results []batchResult `json:"results"` // in the order of the request
}

// batchResult is the answer to one reservation of a batch: what POST /v1/reservations would have answered.
type batchResult struct {
	Status      int            `json:"status"`
	Reservation *reserveAnswer `json:"reservation,omitempty"`
	Problem     *Problem       `json:"problem,omitempty"`
}

type cacheAnswer struct {
	Exact             bool    `json:"exact"`
	SemanticThreshold *string `json:"semantic_threshold"`
}

// nanoUSD is an amount that is known in whole nano-dollars. It is written in dollars, as money.USD is, and needs no memory
// of its own: seven of them are in every reservation's answer.
type nanoUSD money.Nano

func (n nanoUSD) MarshalText() ([]byte, error) { return money.Nano(n).AppendUSD(nil), nil }

func (n nanoUSD) String() string { return string(money.Nano(n).AppendUSD(nil)) }

type amounts struct {
	CostUSD      nanoUSD `json:"cost_usd"`
	InputTokens  int64   `json:"input_tokens"`
	OutputTokens int64   `json:"output_tokens"`
}

type remaining struct {
	MinuteUSD nanoUSD `json:"minute_usd"`
	DayUSD    nanoUSD `json:"day_usd"`
	MonthUSD  nanoUSD `json:"month_usd"`
}

type executionPosition struct {
	RootExecutionID string   `json:"root_execution_id"`
	SpentUSD        nanoUSD  `json:"spent_usd"`
	RemainingUSD    *nanoUSD `json:"remaining_usd"` // null: no limit
	Depth           int64    `json:"depth"`
	Calls           int64    `json:"calls"`
}

type settleRequest struct {
	Usage       json.RawMessage `json:"usage"`
	API         string          `json:"api"`
	Meters      quantities      `json:"meters"`
	Status      string          `json:"status"`
	ErrorCode   string          `json:"error_code"`
	Model       string          `json:"model"`
	ServiceTier string          `json:"service_tier"`
	CacheHit    string          `json:"cache_hit"`
	ResponseID  string          `json:"response_id"`
	Traceparent string          `json:"traceparent"`
	Tracestate  string          `json:"tracestate"`
	Receipt     token           `json:"receipt"`
	// ordered is Usage, where it was put in order already.
	ordered usageevent.Ordered
}

type settleAnswer struct {
	ReservationID string     `json:"reservation_id"`
	State         string     `json:"state"`
	Status        string     `json:"status"`
	CostUSD       *money.USD `json:"cost_usd"`   // list price; null: unpriced
	BilledUSD     *money.USD `json:"billed_usd"` // with the tenant's markup
	// ReservedUSD and OverageUSD are what counts against the ceilings: of the list price or, under count: billed, of what is billed.
	ReservedUSD money.USD `json:"reserved_usd"`
	OverageUSD  money.USD `json:"overage_usd"`
	Estimated   bool      `json:"estimated"`
	Late        bool      `json:"late"`
	// Flags: cache_hit, dearer_model, total_mismatch, unknown_usage, unpriced.
	Flags   []string `json:"flags"`
	EventID string   `json:"event_id"`
}

type releaseRequest struct {
	Receipt token `json:"receipt"`
}

type extendRequest struct {
	LeaseSeconds      int64 `json:"lease_seconds"`
	OutputTokensSoFar int64 `json:"output_tokens_so_far"`
	Receipt           token `json:"receipt"`
}

type extendAnswer struct {
	ReservationID string   `json:"reservation_id"`
	State         string   `json:"state"`
	Stop          bool     `json:"stop"`
	Reason        string   `json:"reason,omitempty"`
	Detail        string   `json:"detail,omitempty"`
	Reserved      *amounts `json:"reserved,omitempty"`
	ExpiresAt     string   `json:"expires_at,omitempty"`
}

// stateAnswer is a reservation's state: open, expiring, settled, released, expired or external.
type stateAnswer struct {
	ReservationID string     `json:"reservation_id"`
	State         string     `json:"state"`
	ReservedAt    string     `json:"reserved_at"`
	ExpiresAt     string     `json:"expires_at,omitempty"`
	ReservedUSD   money.USD  `json:"reserved_usd"`
	CostUSD       *money.USD `json:"cost_usd,omitempty"`
	Estimated     bool       `json:"estimated,omitempty"`
	Late          bool       `json:"late,omitempty"`
	EventID       string     `json:"event_id,omitempty"`
}

// closeRequest is an empty object.
type closeRequest struct{}

type closeAnswer struct {
	RootExecutionID string `json:"root_execution_id"`
	State           string `json:"state"`
	ClosedAt        string `json:"closed_at"`
}

type budgetAnswer struct {
	TenantID    string                `json:"tenant_id"`
	AsOf        string                `json:"as_of"`
	Rung        ladder.Rung           `json:"rung"`
	Mode        string                `json:"mode"`
	PercentUsed int64                 `json:"percent_used"`
	Message     string                `json:"message"`
	Steps       []stepLine            `json:"steps"`
	Timezone    string                `json:"timezone"`
	Remaining   remaining             `json:"remaining"`
	Windows     map[string]windowLine `json:"windows"`
	Limits      map[string]limitLine  `json:"limits"`
	Scopes      []scopeLine           `json:"scopes,omitempty"`
}

// scopeLine is a sub-scope with the windows that it has a ceiling for. The rung of a window is 4 where it refuses, else 0.
type scopeLine struct {
	Kind    window.ScopeKind      `json:"kind"`
	ID      string                `json:"id"`
	Windows map[string]windowLine `json:"windows"`
}

// stepLine is where one rung of the day begins.
type stepLine struct {
	Rung    ladder.Rung `json:"rung"`
	Mode    string      `json:"mode"`
	Percent int32       `json:"percent"`
	FromUSD money.USD   `json:"from_usd"`
}

// windowLine is one window of dollars. used = own + external; own is settled and held amounts. The sliding minute does not
// know how much of it is held.
type windowLine struct {
	CeilingUSD   money.USD   `json:"ceiling_usd"`
	UsedUSD      money.USD   `json:"used_usd"`
	OwnUSD       money.USD   `json:"own_usd"`
	ExternalUSD  money.USD   `json:"external_usd"`
	HeldUSD      *money.USD  `json:"held_usd,omitempty"`
	RemainingUSD nanoUSD     `json:"remaining_usd"`
	PercentUsed  int64       `json:"percent_used"`
	Rung         ladder.Rung `json:"rung"`
	Soft         bool        `json:"soft,omitempty"`
	ResetsAt     string      `json:"resets_at,omitempty"`
}

// limitLine is one rate or the concurrency; null is no limit.
type limitLine struct {
	Limit     *int64 `json:"limit"`
	Used      int64  `json:"used"`
	Remaining *int64 `json:"remaining"`
}
