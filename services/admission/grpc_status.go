package admission

import (
	"fmt"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/gen/admissionv1"
)

// errorDomain is the domain of google.rpc.ErrorInfo; its reason is the code.
const errorDomain = "weir"

// status is a problem as gRPC tells it. tenant is the caller's, "" where nobody was identified.
func (g *grpcAPI) status(p *Problem, tenant string) error {
	code, known := g.codes[p.Code]
	if !known {
		code = codes.Internal
	}
	text := p.Detail
	if text == "" {
		text = p.Title
	}
	st, err := grpcstatus.New(code, text).WithDetails(p.details(tenant)...)
	if err != nil { // details that do not encode, which cannot be
		return grpcstatus.Error(code, text)
	}
	return st.Err()
}

// details are the standard ones, so that clients need no code of ours, and the whole problem for those that have it.
func (p *Problem) details(tenant string) []protoadapt.MessageV1 {
	info := &errdetails.ErrorInfo{Reason: string(p.Code), Domain: errorDomain, Metadata: map[string]string{}}
	for name, value := range map[string]string{"limit": string(p.Limit), "window": string(p.Window), "field": p.Field, "state": p.State,
		"resets_at": p.ResetsAt, "tenant": tenant} {
		if value != "" {
			info.Metadata[name] = value
		}
	}
	all := []protoadapt.MessageV1{info}
	if p.Scope != nil {
		info.Metadata["scope_kind"], info.Metadata["scope_id"] = string(p.Scope.Kind), p.Scope.ID
	}
	if p.RetryAfterMS > 0 {
		all = append(all, &errdetails.RetryInfo{RetryDelay: durationpb.New(time.Duration(p.RetryAfterMS) * time.Millisecond)})
	}
	if p.Code == admit.TenantQuotaExceeded {
		all = append(all, &errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{{Subject: "tenant:" + tenant,
			Description: p.Detail, QuotaMetric: "usd", QuotaId: string(p.Window)}}})
	}
	if p.Code == admit.InvalidArgument && p.Field != "" {
		all = append(all, &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: p.Field, Description: p.Detail}}})
	}
	return append(all, p.message())
}

// message is the problem as Protobuf has it, member by member.
func (p *Problem) message() *admissionv1.Problem {
	out := &admissionv1.Problem{
		Type: p.Type, Title: p.Title, Status: int32(p.Status), Code: string(p.Code), Detail: p.Detail, Limit: string(p.Limit), Window: string(p.Window),
		Field: p.Field, State: p.State, ResetsAt: stamp(p.ResetsAt), UpgradeUrl: p.UpgradeURL, Used: figureText(p.Used), Asked: figureText(p.Asked),
		Ceiling: figureText(p.Ceiling), PercentUsed: p.PercentUsed, Message: p.Message, RetryAfterMs: p.RetryAfterMS,
	}
	if p.Scope != nil {
		out.Scope = &admissionv1.Scope{Kind: string(p.Scope.Kind), Id: p.Scope.ID}
	}
	if p.Rung != nil {
		rung := int32(*p.Rung)
		out.Rung = &rung
	}
	return out
}

// figureText is an amount or a count as text; "" for none.
func figureText(n any) string {
	if n == nil {
		return ""
	}
	return fmt.Sprint(n)
}
