package admission

import (
	"context"
	"fmt"

	"github.com/weir-project/weir/pkg/gen/admissionv1"
	"github.com/weir-project/weir/pkg/usageevent"
)

// StartExecution is POST /v1/executions.
func (g *grpcAPI) StartExecution(ctx context.Context, in *admissionv1.StartExecutionRequest) (*admissionv1.StartExecutionResponse, error) {
	req, p := executionRequestOf(in)
	if p != nil {
		return nil, p
	}
	a, err := g.s.begin(ctx, callerIn(ctx), req)
	return answered(ctx, a, err, executionResponse)
}

// CloseExecution is POST /v1/executions/{root}/close.
func (g *grpcAPI) CloseExecution(ctx context.Context, in *admissionv1.CloseExecutionRequest) (*admissionv1.CloseExecutionResponse, error) {
	a, err := g.s.closeExecution(ctx, callerIn(ctx), in.GetRootExecutionId(), closeRequest{})
	return answered(ctx, a, err, closeResponse)
}

// Reserve is POST /v1/reservations.
func (g *grpcAPI) Reserve(ctx context.Context, in *admissionv1.ReserveRequest) (*admissionv1.ReserveResponse, error) {
	req, p := reserveRequestOf(in)
	if p != nil {
		return nil, p
	}
	a, err := g.s.reserve(ctx, callerIn(ctx), req)
	return answered(ctx, a, err, reserveResponse)
}

// ReserveBatch is POST /v1/reservations:batch.
func (g *grpcAPI) ReserveBatch(ctx context.Context, in *admissionv1.ReserveBatchRequest) (*admissionv1.ReserveBatchResponse, error) {
	if p := checkBatch(len(in.GetReservations())); p != nil {
		return nil, p
	}
	items := make([]batchItem, len(in.GetReservations()))
	for i, one := range in.GetReservations() {
		if items[i].problem = checkMessage(one); items[i].problem == nil {
			items[i].req, items[i].problem = reserveRequestOf(one)
		}
	}
	a, err := g.s.reserveBatch(ctx, callerIn(ctx), items)
	return answered(ctx, a, err, batchResponse)
}

// Settle is POST /v1/reservations/{id}/settle.
func (g *grpcAPI) Settle(ctx context.Context, in *admissionv1.SettleRequest) (*admissionv1.SettleResponse, error) {
	req, p := settleRequestOf(in)
	if p != nil {
		return nil, p
	}
	a, err := g.s.settle(ctx, callerIn(ctx), in.GetReservationId(), req)
	return answered(ctx, a, err, settleResponse)
}

// Release is POST /v1/reservations/{id}/release.
func (g *grpcAPI) Release(ctx context.Context, in *admissionv1.ReleaseRequest) (*admissionv1.ReleaseResponse, error) {
	req, p := releaseRequestOf(in)
	if p != nil {
		return nil, p
	}
	a, err := g.s.release(ctx, callerIn(ctx), in.GetReservationId(), req)
	return answered(ctx, a, err, func(a answer) (*admissionv1.ReleaseResponse, error) {
		state, err := stateOfAnswer(a)
		return &admissionv1.ReleaseResponse{Reservation: state}, err
	})
}

// Extend is POST /v1/reservations/{id}/extend.
func (g *grpcAPI) Extend(ctx context.Context, in *admissionv1.ExtendRequest) (*admissionv1.ExtendResponse, error) {
	req, p := extendRequestOf(in)
	if p != nil {
		return nil, p
	}
	a, err := g.s.extend(ctx, callerIn(ctx), in.GetReservationId(), req)
	return answered(ctx, a, err, extendResponse)
}

// GetReservation is GET /v1/reservations/{id}.
func (g *grpcAPI) GetReservation(ctx context.Context, in *admissionv1.GetReservationRequest) (*admissionv1.GetReservationResponse, error) {
	a, err := g.s.state(ctx, callerIn(ctx), in.GetReservationId())
	return answered(ctx, a, err, func(a answer) (*admissionv1.GetReservationResponse, error) {
		state, err := stateOfAnswer(a)
		return &admissionv1.GetReservationResponse{Reservation: state}, err
	})
}

// GetBudget is GET /v1/budget.
func (g *grpcAPI) GetBudget(ctx context.Context, in *admissionv1.GetBudgetRequest) (*admissionv1.GetBudgetResponse, error) {
	a, err := g.s.budget(ctx, callerIn(ctx), budgetRequest{AgentID: in.GetAgentId(), CostCenter: in.GetCostCenter()})
	return answered(ctx, a, err, budgetResponse)
}

// SendEvents is POST /v1/events.
func (g *grpcAPI) SendEvents(ctx context.Context, in *admissionv1.SendEventsRequest) (*admissionv1.SendEventsResponse, error) {
	size := 0
	for _, event := range in.GetEvents() {
		size += len(event)
	}
	if size > maxEventsBody {
		return nil, problem(codeTooLarge, fmt.Sprintf("The events are larger than %d bytes.", maxEventsBody))
	}
	a, err := g.s.ingest(ctx, callerIn(ctx), int64(size), func() ([]usageevent.Event, *Problem) { return eventsOf(in.GetEvents()) })
	return answered(ctx, a, err, func(answer) (*admissionv1.SendEventsResponse, error) { return &admissionv1.SendEventsResponse{}, nil })
}
