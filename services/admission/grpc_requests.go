package admission

import (
	"encoding/json"
	"fmt"

	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/gen/admissionv1"
	"github.com/weir-project/weir/pkg/usageevent"
)

// The requests of gRPC as the structs of wire.go. Only what JSON's decoder would have refused is refused here; everything
// else is checked by the calls, for HTTP and gRPC alike.

func executionRequestOf(in *admissionv1.StartExecutionRequest) (executionRequest, *Problem) {
	req := executionRequest{RootExecutionID: in.GetRootExecutionId(), ParentToken: token(in.GetParentToken()), AgentID: in.GetAgentId(), CostCenter: in.GetCostCenter()}
	if in.ParentToken != nil && req.ParentToken == "" {
		return req, emptyToken(&req)
	}
	if in.MaxCostUsd != nil {
		usd, err := money.ParseUSD(in.GetMaxCostUsd())
		if err != nil {
			return req, decodeProblem(err)
		}
		req.MaxCostUSD = &usd
	}
	if in.MaxDepth != nil {
		depth := int(in.GetMaxDepth())
		req.MaxDepth = &depth
	}
	return req, nil
}

func reserveRequestOf(in *admissionv1.ReserveRequest) (reserveRequest, *Problem) {
	if in.ExecutionToken != nil && in.GetExecutionToken() == "" {
		return reserveRequest{}, emptyToken(&reserveRequest{})
	}
	estimate, p := quantitiesOf(&reserveRequest{}, in.GetEstimate())
	return reserveRequest{ReservationID: in.GetReservationId(), Provider: in.GetProvider(), Model: in.GetModel(), Estimate: estimate, Effect: in.GetEffect(),
		ExecutionToken: token(in.GetExecutionToken()), AgentID: in.GetAgentId(), ParentAgentID: in.GetParentAgentId(), CostCenter: in.GetCostCenter(),
		LeaseSeconds: in.GetLeaseSeconds()}, p
}

func settleRequestOf(in *admissionv1.SettleRequest) (settleRequest, *Problem) {
	if in.Receipt != nil && in.GetReceipt() == "" {
		return settleRequest{}, emptyToken(&settleRequest{})
	}
	req := settleRequest{API: in.GetApi(), Status: in.GetStatus(), ErrorCode: in.GetErrorCode(), Model: in.GetModel(), ServiceTier: in.GetServiceTier(),
		ResponseID: in.GetResponseId(), Traceparent: in.GetTraceparent(), Tracestate: in.GetTracestate(), Receipt: token(in.GetReceipt()), CacheHit: in.GetCacheHit()}
	if raw := in.GetUsage(); len(raw) > 0 {
		if !json.Valid(raw) {
			return req, invalid("usage", "usage is not valid JSON.")
		}
		if !wellFormed(string(raw)) {
			return req, invalid("usage", "usage "+notText+".")
		}
		req.Usage = raw
		if p := req.checkUsage(); p != nil {
			return req, p
		}
	}
	meters, p := quantitiesOf(&settleRequest{}, in.GetMeters())
	req.Meters = meters
	return req, p
}

func releaseRequestOf(in *admissionv1.ReleaseRequest) (releaseRequest, *Problem) {
	req := releaseRequest{Receipt: token(in.GetReceipt())}
	if in.Receipt != nil && req.Receipt == "" {
		return req, emptyToken(&req)
	}
	return req, nil
}

func extendRequestOf(in *admissionv1.ExtendRequest) (extendRequest, *Problem) {
	req := extendRequest{LeaseSeconds: in.GetLeaseSeconds(), OutputTokensSoFar: in.GetOutputTokensSoFar(), Receipt: token(in.GetReceipt())}
	if in.Receipt != nil && req.Receipt == "" {
		return req, emptyToken(&req)
	}
	return req, nil
}

// quantitiesOf takes what JSON takes as a number; nil for none. request is what they are of, for the error.
func quantitiesOf(request any, given map[string]string) (quantities, *Problem) {
	if len(given) == 0 {
		return nil, nil
	}
	out := make(quantities, len(given))
	for name, text := range given {
		if !isNumber(text) {
			return nil, (&quantityError{name, "is not a number"}).in(request)
		}
		out[name] = json.Number(text)
	}
	return out, nil
}

// isNumber reports whether text is a number of JSON, with nothing around it.
func isNumber(text string) bool {
	if text == "" || text[0] != '-' && (text[0] < '0' || text[0] > '9') || text[len(text)-1] < '0' || text[len(text)-1] > '9' {
		return false
	}
	return json.Valid([]byte(text))
}

// eventsOf decodes events as a batch over HTTP, each in structured mode.
func eventsOf(given [][]byte) ([]usageevent.Event, *Problem) {
	if len(given) > maxEvents {
		return nil, invalid("", fmt.Sprintf("A batch has at most %d events.", maxEvents))
	}
	events := make([]usageevent.Event, 0, len(given))
	for i, raw := range given {
		one, p := readOne(raw, structured)
		if p != nil {
			return nil, ofEvent(i, p)
		}
		events = append(events, one...)
	}
	return events, nil
}
