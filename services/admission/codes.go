package admission

import (
	"google.golang.org/grpc/codes"

	"github.com/weir-project/weir/pkg/domain/admit"
)

// codeLine is one code of the API: what it is over gRPC, who can do something about it, and what it means. Its HTTP status,
// its title and whether a retry makes sense come from its admit.Code, or from status and title for the codes of this package.
type codeLine struct {
	code admit.Code
	grpc codes.Code
	// who acts: whoever cannot, passes it on.
	who string
	// when it is answered.
	when string
	// notYet is why this version cannot answer with it; empty where it can.
	notYet string
}

// codeTable is every code that the API answers with: those of decisions (pkg/domain/admit), and below them its own.
//
// The gRPC codes follow one rule: UNAVAILABLE and RESOURCE_EXHAUSTED may be retried after what google.rpc.RetryInfo
// says, and nothing else may. So a used-up budget is FAILED_PRECONDITION, not RESOURCE_EXHAUSTED: a client that knows only gRPC's codes
// must be able to tell it from a rate (I9), and a kill is not UNAVAILABLE, though HTTP has 503 for both.
func codeTable() []codeLine {
	const runtime, tenant, caller, owner, operator, billing = "runtime", "tenant", "caller", "agent owner", "operator", "billing"
	return []codeLine{
		{admit.RateLimited, codes.ResourceExhausted, runtime, "Requests, input or output tokens per minute, concurrent calls, open executions, executions of a week or events in flight are at their limit; `limit` names it.", ""},
		{admit.UpstreamThrottled, codes.ResourceExhausted, runtime, "The provider throttles this tenant's calls; they wait in its own queue.", "upstream signals (`POST /v1/upstream-signals`) are not taken yet"},
		{admit.TenantQuotaExceeded, codes.FailedPrecondition, tenant, "The dollars of a minute, day or month are used up; `window` names it, `resets_at` says when it frees.", ""},
		{admit.ToolDeferred, codes.FailedPrecondition, tenant, "From rung 2 on (80 % of the day, unless the plan says otherwise) a call with `effect: write` is refused. It is not queued: ask again on a lower rung.", ""},
		{admit.ReadOnlyMode, codes.FailedPrecondition, tenant, "The same from rung 3 on (100 % of the day).", ""},
		{admit.EstimateExceedsLimit, codes.InvalidArgument, caller, "The estimate alone is larger than a limit of the tenant or of one of its sub-scopes: it can never fit. `limit` or `window` names it, `scope` the sub-scope. One that is larger than all that an execution, or a child's branch, may spend is `execution_budget_exceeded`.", ""},
		{admit.ExecutionBudgetExceeded, codes.FailedPrecondition, owner, "The execution has not enough left of its dollars or its calls, or a child of its own lower `max_cost_usd`, also where the call alone is larger than all of it; `limit` names which, `scope` the child's branch.", ""},
		{admit.ExecutionDepthExceeded, codes.FailedPrecondition, owner, "The agent would be nested deeper than the execution allows.", ""},
		{admit.ExecutionRevoked, codes.FailedPrecondition, owner, "The execution was ended, with all its descendants, or is older than a week.", ""},
		{admit.Killed, codes.FailedPrecondition, operator, "An operator has stopped all calls, the tenant's, the provider's or the model's.", ""},
		{admit.ProviderAccountClosed, codes.FailedPrecondition, operator, "The provider's account has run out of money.", "upstream signals (`POST /v1/upstream-signals`) are not taken yet"},
		{admit.StoreUnavailable, codes.Unavailable, operator, "A store that is needed to decide is away, slow or takes no writes, clocks are apart, or the catalogs are not loaded yet.", ""},
		{admit.StoreRecovering, codes.Unavailable, operator, "The counters were lost and are being rebuilt.", ""},
		{admit.UnknownPrice, codes.FailedPrecondition, billing, "The price book has no price for the model, or none for a meter of the estimate; under `unknown_price: dearest`, nor has any model of the provider.", ""},
		{admit.ReservationConflict, codes.AlreadyExists, caller, "The id is in use with other content, or the reservation has ended otherwise; `state` says how.", ""},
		{admit.ReservationNotFound, codes.NotFound, caller, "No such reservation is open or remembered.", ""},
		{admit.ForbiddenTenant, codes.PermissionDenied, caller, "The credential, token, trace or event is of another tenant, or no tenant lists the identity.", ""},
		{admit.Unauthenticated, codes.Unauthenticated, caller, "There is no credential, or it is not valid. Never the answer to an outage.", ""},
		{admit.InvalidArgument, codes.InvalidArgument, caller, "The request is malformed; `field` names the member.", ""},

		{codeExecutionNotFound, codes.NotFound, caller, "No such root execution of this tenant.", ""},
		{codeTooLarge, codes.InvalidArgument, caller, "The body is larger than the call takes. A message above 4 MiB is refused by gRPC itself: RESOURCE_EXHAUSTED, without details.", ""},
		{codeEncoded, codes.InvalidArgument, caller, "The request has a `Content-Encoding`, such as gzip: bodies are taken as they are. gRPC refuses a message of an encoding that it does not know itself, UNIMPLEMENTED.", ""},
		{codeNotFound, codes.Unimplemented, caller, "There is no such path.", ""},
		{codeMethod, codes.Unimplemented, caller, "The path does not take this method; `Allow` lists those that it takes.", ""},
		{codeInternal, codes.Internal, operator, "A defect of this service, which it has logged.", ""},
	}
}

// grpcCodes is the table by code.
func grpcCodes() map[admit.Code]codes.Code {
	out := map[admit.Code]codes.Code{}
	for _, line := range codeTable() {
		out[line.code] = line.grpc
	}
	return out
}
