package admission

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/gen/admissionv1"
)

// The structs of wire.go as gRPC's answers, field by field. A test holds the two lists of fields against each other.

func executionResponse(a answer) (*admissionv1.StartExecutionResponse, error) {
	b, err := bodyOf[executionAnswer](a)
	return &admissionv1.StartExecutionResponse{RootExecutionId: b.RootExecutionID, AgentId: b.AgentID, Depth: int64(b.Depth), MaxDepth: int64(b.MaxDepth),
		MaxCostUsd: usdText(b.MaxCostUSD), Token: b.Token, ExpiresAt: stamp(b.ExpiresAt), BranchId: b.BranchID}, err
}

func closeResponse(a answer) (*admissionv1.CloseExecutionResponse, error) {
	b, err := bodyOf[closeAnswer](a)
	return &admissionv1.CloseExecutionResponse{RootExecutionId: b.RootExecutionID, State: b.State, ClosedAt: stamp(b.ClosedAt)}, err
}

func reserveResponse(a answer) (*admissionv1.ReserveResponse, error) {
	b, err := bodyOf[*reserveAnswer](a)
	if err != nil {
		return nil, err
	}
	return reservationMessage(b, a.status), nil
}

func reservationMessage(b *reserveAnswer, status int) *admissionv1.ReserveResponse {
	out := &admissionv1.ReserveResponse{
		ReservationId: b.ReservationID, State: b.State, Rung: int32(b.Rung), Mode: b.Mode, Model: b.Model,
		Cache:       &admissionv1.Cache{Exact: b.Cache.Exact, SemanticThreshold: b.Cache.SemanticThreshold},
		PercentUsed: b.PercentUsed, Message: b.Message, Reserved: amountsMessage(&b.Reserved), Remaining: remainingMessage(b.Remaining),
		Receipt: b.Receipt, ReservedAt: stamp(b.ReservedAt), ExpiresAt: stamp(b.ExpiresAt), Replayed: status == http.StatusOK,
		Flags: b.Flags,
	}
	if x := b.Execution; x != nil {
		out.Execution = &admissionv1.ExecutionPosition{RootExecutionId: x.RootExecutionID, SpentUsd: x.SpentUSD.String(), RemainingUsd: usdText(x.RemainingUSD),
			Depth: x.Depth, Calls: x.Calls}
	}
	return out
}

func batchResponse(a answer) (*admissionv1.ReserveBatchResponse, error) {
	b, err := bodyOf[batchAnswer](a)
	out := &admissionv1.ReserveBatchResponse{Results: make([]*admissionv1.BatchResult, len(b.Results))}
	for i, r := range b.Results {
		one := &admissionv1.BatchResult{Status: int32(r.Status)}
		if r.Problem != nil {
			one.Result = &admissionv1.BatchResult_Problem{Problem: r.Problem.message()}
		} else {
			one.Result = &admissionv1.BatchResult_Reservation{Reservation: reservationMessage(r.Reservation, r.Status)}
		}
		out.Results[i] = one
	}
	return out, err
}

func settleResponse(a answer) (*admissionv1.SettleResponse, error) {
	b, err := bodyOf[settleAnswer](a)
	return &admissionv1.SettleResponse{ReservationId: b.ReservationID, State: b.State, Status: b.Status, CostUsd: usdText(b.CostUSD), BilledUsd: usdText(b.BilledUSD),
		ReservedUsd: b.ReservedUSD.String(), OverageUsd: b.OverageUSD.String(), Estimated: b.Estimated, Late: b.Late, EventId: b.EventID, Flags: b.Flags}, err
}

func extendResponse(a answer) (*admissionv1.ExtendResponse, error) {
	b, err := bodyOf[extendAnswer](a)
	return &admissionv1.ExtendResponse{ReservationId: b.ReservationID, State: b.State, Stop: b.Stop, Reason: b.Reason, Detail: b.Detail,
		Reserved: amountsMessage(b.Reserved), ExpiresAt: stamp(b.ExpiresAt)}, err
}

func stateOfAnswer(a answer) (*admissionv1.Reservation, error) {
	b, err := bodyOf[stateAnswer](a)
	return &admissionv1.Reservation{ReservationId: b.ReservationID, State: b.State, ReservedAt: stamp(b.ReservedAt), ExpiresAt: stamp(b.ExpiresAt),
		ReservedUsd: b.ReservedUSD.String(), CostUsd: usdText(b.CostUSD), Estimated: b.Estimated, Late: b.Late, EventId: b.EventID}, err
}

func budgetResponse(a answer) (*admissionv1.GetBudgetResponse, error) {
	b, err := bodyOf[budgetAnswer](a)
	out := &admissionv1.GetBudgetResponse{TenantId: b.TenantID, AsOf: stamp(b.AsOf), Rung: int32(b.Rung), Mode: b.Mode, PercentUsed: b.PercentUsed,
		Message: b.Message, Timezone: b.Timezone, Remaining: remainingMessage(b.Remaining),
		Windows: map[string]*admissionv1.Window{}, Limits: map[string]*admissionv1.LimitUse{}}
	for name, w := range b.Windows {
		out.Windows[name] = windowMessage(w)
	}
	for _, scope := range b.Scopes {
		m := &admissionv1.ScopeBudget{Kind: string(scope.Kind), Id: scope.ID, Windows: map[string]*admissionv1.Window{}}
		for name, w := range scope.Windows {
			m.Windows[name] = windowMessage(w)
		}
		out.Scopes = append(out.Scopes, m)
	}
	for _, step := range b.Steps {
		out.Steps = append(out.Steps, &admissionv1.Step{Rung: int32(step.Rung), Mode: step.Mode, Percent: step.Percent, FromUsd: step.FromUSD.String()})
	}
	for name, l := range b.Limits {
		out.Limits[name] = &admissionv1.LimitUse{Limit: l.Limit, Used: l.Used, Remaining: l.Remaining}
	}
	return out, err
}

func windowMessage(w windowLine) *admissionv1.Window {
	return &admissionv1.Window{CeilingUsd: w.CeilingUSD.String(), UsedUsd: w.UsedUSD.String(), OwnUsd: w.OwnUSD.String(),
		ExternalUsd: w.ExternalUSD.String(), HeldUsd: usdText(w.HeldUSD), RemainingUsd: w.RemainingUSD.String(), PercentUsed: w.PercentUsed,
		Rung: int32(w.Rung), Soft: w.Soft, ResetsAt: stamp(w.ResetsAt)}
}

func amountsMessage(a *amounts) *admissionv1.Amounts {
	if a == nil {
		return nil
	}
	return &admissionv1.Amounts{CostUsd: a.CostUSD.String(), InputTokens: a.InputTokens, OutputTokens: a.OutputTokens}
}

func remainingMessage(r remaining) *admissionv1.Remaining {
	return &admissionv1.Remaining{MinuteUsd: r.MinuteUSD.String(), DayUsd: r.DayUSD.String(), MonthUsd: r.MonthUSD.String()}
}

// bodyOf is the body of an answer: itself, or read back where Postgres keeps its JSON.
func bodyOf[T any](a answer) (T, error) {
	var out T
	switch b := a.body.(type) {
	case T:
		return b, nil
	case []byte:
		if err := json.Unmarshal(b, &out); err != nil {
			return out, fmt.Errorf("a stored answer does not decode: %w", err)
		}
		return out, nil
	default:
		return out, errors.New("a call gave back another answer than its own")
	}
}

func usdText[A interface {
	money.USD | nanoUSD
	String() string
}](usd *A) *string {
	if usd == nil {
		return nil
	}
	text := (*usd).String()
	return &text
}

// stamp is a time of wire.go as Protobuf has it; nil for none.
func stamp(text string) *timestamppb.Timestamp {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return nil
	}
	return timestamppb.New(at)
}
