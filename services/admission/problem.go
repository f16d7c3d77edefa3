package admission

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/ladder"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/domain/window"
	"github.com/weir-project/weir/pkg/identity"
	"github.com/weir-project/weir/services/admission/epoch"
)

// Codes of HTTP and of the calls, beside those of pkg/domain/admit, which are of decisions.
const (
	codeNotFound          admit.Code = "not_found"           // no such path
	codeMethod            admit.Code = "method_not_allowed"  // no such method on the path
	codeTooLarge          admit.Code = "body_too_large"      // a body above its bound
	codeEncoded           admit.Code = "body_encoded"        // a body with a Content-Encoding
	codeExecutionNotFound admit.Code = "execution_not_found" // close of an unknown root
	codeInternal          admit.Code = "internal_error"      // a broken invariant of ours
)

// Problem is an RFC 9457 answer. It is an error, so that handlers return it. Absent members are left out.
type Problem struct {
	Type   string     `json:"type"`
	Title  string     `json:"title"`
	Status int        `json:"status"`
	Code   admit.Code `json:"code"`
	Detail string     `json:"detail,omitempty"`

	// Limit is the limit that refused (rate_limited, execution_*); Window the window of dollars.
	Limit  admit.Limit `json:"limit,omitempty"`
	Window admit.Limit `json:"window,omitempty"`
	// Scope is the tenant's sub-scope whose ceiling refused, or the branch of the execution whose limit did; absent where it is
	// the tenant's own, or the root execution's.
	Scope *scopeName `json:"scope,omitempty"`
	// Field is the member of the request that is wrong.
	Field string `json:"field,omitempty"`
	// State is how the reservation stands, where that is the reason.
	State string `json:"state,omitempty"`
	// ResetsAt is when the window ends, RFC 3339.
	ResetsAt string `json:"resets_at,omitempty"`
	// UpgradeURL is the plan's upgrade_url; absent where it has none.
	UpgradeURL string `json:"upgrade_url,omitempty"`
	// Used, Asked and Ceiling are dollars for windows and max_cost_usd, else counts. Of a call that can never fit there is no Used.
	Used    any `json:"used,omitempty"`
	Asked   any `json:"asked,omitempty"`
	Ceiling any `json:"ceiling,omitempty"`
	// Rung, PercentUsed (of the day) and Message are for the end user, where a budget or the ladder refused.
	Rung        *ladder.Rung `json:"rung,omitempty"`
	PercentUsed *int64       `json:"percent_used,omitempty"`
	Message     string       `json:"message,omitempty"`
	// RetryAfterMS repeats Retry-After with a finer grain; only where a retry makes sense.
	RetryAfterMS int64 `json:"retry_after_ms,omitempty"`
}

func (p *Problem) Error() string { return string(p.Code) + ": " + p.Detail }

func problem(code admit.Code, detail string) *Problem {
	p := &Problem{Type: problemType(code), Title: title(code), Status: status(code), Code: code, Detail: detail}
	if code == admit.StoreUnavailable || code == admit.StoreRecovering {
		p.RetryAfterMS = jitter(time.Second).Milliseconds()
	}
	return p
}

func invalid(field, detail string) *Problem {
	p := problem(admit.InvalidArgument, detail)
	p.Field = field
	return p
}

func status(code admit.Code) int {
	switch code {
	case codeNotFound, codeExecutionNotFound:
		return http.StatusNotFound
	case codeMethod:
		return http.StatusMethodNotAllowed
	case codeTooLarge:
		return http.StatusRequestEntityTooLarge
	case codeEncoded:
		return http.StatusUnsupportedMediaType
	default:
		return code.Status()
	}
}

// title is the same for every occurrence of a code, as RFC 9457 wants it.
func title(code admit.Code) string {
	switch code {
	case codeExecutionNotFound:
		return "No such execution"
	case codeNotFound, codeMethod:
		return "No such call"
	case codeTooLarge:
		return "The body is too large"
	case codeEncoded:
		return "The body is compressed, or encoded in another way"
	default:
		return code.Title()
	}
}

// maxRetryAfter and maxJitter bound what a caller is told to wait: a sliding minute frees itself within it.
const (
	maxRetryAfter = time.Minute
	maxJitter     = 5 * time.Second
)

// jitter spreads retries over one to five seconds, so that clients which were refused together do not return together.
func jitter(wait time.Duration) time.Duration {
	wait = min(wait, maxRetryAfter)
	return wait + rand.N(min(maxJitter-time.Second, max(time.Second, wait/4)))
}

// detailOf says which limit refused, and whose, unless it is the tenant's own or the root execution's.
func detailOf(r admit.Refusal) string {
	if r.ScopeKind == "" {
		return r.Detail()
	}
	return fmt.Sprintf("%s %s, %s", r.ScopeKind, r.ScopeID, r.Detail())
}

// refused turns a decision of the budget store into its answer to this caller.
func refused(r admit.Refusal, c caller, loc *time.Location) *Problem {
	p := problem(r.Code, detailOf(r))
	text := told(c.contract, c.language, rungOf(r, c.contract), ladder.Percent(r.DayUsed, c.contract.Ceilings.Day), false)
	inform := func(message string) { p.Rung, p.PercentUsed, p.Message = &text.Rung, &text.PercentUsed, message }
	if r.ScopeKind != "" {
		p.Scope = &scopeName{Kind: r.ScopeKind, ID: r.ScopeID}
	}
	switch r.Code {
	case admit.RateLimited:
		p.Limit = r.Limit
		if wait, ok := r.RetryAfter(); ok {
			p.RetryAfterMS = jitter(wait).Milliseconds()
		}
	case admit.TenantQuotaExceeded:
		p.Window, p.UpgradeURL = r.Limit, c.contract.Actions.UpgradeURL
		if at := r.ResetsAt(loc); !at.IsZero() {
			p.ResetsAt = at.UTC().Format(time.RFC3339)
		}
		inform(cutText(text, r, c.contract))
	case admit.ToolDeferred:
		inform(text.Deferred())
	case admit.ReadOnlyMode:
		inform(text.Message())
	default:
		p.Limit = r.Limit
	}
	p.Asked, p.Ceiling = figure(r.Limit, r.Asked), figure(r.Limit, r.Ceiling)
	if r.Code != admit.EstimateExceedsLimit { // for which it was not looked at
		p.Used = figure(r.Limit, r.Used)
	}
	return p
}

// cutText says which budget is used up or, where something of it is left, that the call does not fit that: a smaller one may.
func cutText(text admit.Told, r admit.Refusal, k *tenant.Contract) string {
	scope := window.Scope{Kind: r.ScopeKind, ID: r.ScopeID}
	switch left := r.Used < stated(r, k); {
	case r.ScopeKind == "" && left:
		return text.Unfit(r.Limit)
	case r.ScopeKind == "":
		return text.Cut(r.Limit)
	case left:
		return text.UnfitOf(scope, r.Limit)
	default:
		return text.CutOf(scope, r.Limit)
	}
}

// stated is the ceiling of a refusal as the contract states it: one that is soft refuses above it, and is used up at it.
func stated(r admit.Refusal, k *tenant.Contract) int64 {
	switch {
	case r.Limit != admit.LimitDay || !k.SoftDay:
		return r.Ceiling
	case r.ScopeKind == "":
		return int64(k.Ceilings.Day)
	default:
		return int64(k.ScopeCeilings(window.Scope{Kind: r.ScopeKind, ID: r.ScopeID}).Day)
	}
}

// rungOf is where a tenant stands that was refused: 4 where its own budget is used up, else as its day has it.
func rungOf(r admit.Refusal, k *tenant.Contract) ladder.Rung {
	if r.Code == admit.TenantQuotaExceeded && r.ScopeKind == "" {
		return ladder.Cut
	}
	return limitsOf(k).DayRung(r.DayUsed)
}

// figure is an amount in dollars where the limit is one of dollars, else a count.
func figure(limit admit.Limit, n int64) any {
	switch limit {
	case admit.LimitMinute, admit.LimitDay, admit.LimitMonth, admit.LimitMaxCost:
		return money.Nano(n).USD()
	case admit.NoLimit:
		return nil
	default:
		return n
	}
}

// storeProblem is the answer to an error of Redis or Postgres: never a 4xx that blames the caller, except for a value
// that the store refuses to count.
func storeProblem(err error) *Problem {
	var p *Problem
	var making recoveringError
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &making):
		p = problem(admit.StoreRecovering, "The budget store has lost its counters; they are being made anew, and nothing is admitted until then.")
		p.RetryAfterMS = jitter(max(time.Second, making.retry)).Milliseconds()
		return p
	case errors.Is(err, budgetstore.ErrLost), errors.Is(err, budgetstore.ErrNotReady), errors.Is(err, budgetstore.ErrEpoch),
		errors.Is(err, budgetstore.ErrNoEpoch), errors.Is(err, budgetstore.ErrReplaced), errors.Is(err, epoch.ErrRefused):
		return problem(admit.StoreRecovering, "The budget store has lost its counters; nothing is admitted until they are recovered.")
	case errors.Is(err, epoch.ErrOutdated):
		return problem(admit.StoreUnavailable, "This replica is of an earlier build than the budget store's counters, and is to be replaced; another one serves.")
	case errors.Is(err, admit.ErrLimit):
		return problem(codeInternal, "A limit of the tenant's contract is beyond what can be counted.")
	case errors.Is(err, admit.ErrInvalid), errors.Is(err, money.ErrRange):
		return problem(admit.InvalidArgument, "An amount of the request is beyond what can be counted: 2^53 - 1 tokens or nano-dollars.")
	case errors.Is(err, budgetstore.ErrClockSkew):
		return problem(admit.StoreUnavailable, "The clocks of this service and of the budget store differ by more than 2 s.")
	default:
		return problem(admit.StoreUnavailable, whyAway(err))
	}
}

// whyAway says of a store that decides nothing what is known of why.
func whyAway(err error) string {
	if r, refuses := budgetstore.AsRefusal(err); refuses {
		return "The budget store answers, but decides nothing: " + r.Means + "."
	}
	if late, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err); ok && late.Timeout() {
		return "A store that is needed to decide did not answer in time."
	}
	return "A store that is needed to decide is away, or cannot be used by this replica."
}

// identityProblem is the answer to an error of pkg/identity.
func identityProblem(err error) *Problem {
	switch {
	case errors.Is(err, identity.ErrForbiddenTenant):
		return problem(admit.ForbiddenTenant, err.Error())
	case errors.Is(err, identity.ErrTenantNotNamed):
		return invalid(tenantHeader, "The credential acts for several tenants: "+tenantHeader+" must name the one that is meant.")
	case errors.Is(err, identity.ErrUnauthenticated):
		return problem(admit.Unauthenticated, err.Error())
	case errors.Is(err, identity.ErrNoAccount):
		return problem(admit.InvalidArgument, err.Error())
	case errors.Is(err, identity.ErrDepthExceeded):
		p := problem(admit.ExecutionDepthExceeded, err.Error())
		p.Limit = admit.LimitMaxDepth
		return p
	default:
		return problem(admit.StoreUnavailable, "Credentials cannot be verified now.")
	}
}

// write sends the problem. Retry-After is there exactly where RetryAfterMS is.
func (p *Problem) write(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	if p.RetryAfterMS > 0 {
		h.Set("Retry-After", strconv.FormatInt((p.RetryAfterMS+999)/1000, 10))
	}
	if p.Status == http.StatusUnsupportedMediaType {
		h.Set("Accept-Encoding", "identity") // RFC 9110, section 12.5.3
	}
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="weir"`)
	}
	body, err := json.Marshal(p)
	if err != nil { // cannot happen: every member encodes
		body = []byte(`{"code":"internal_error"}`)
	}
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(body, '\n')) // a client that went away needs no answer
}
