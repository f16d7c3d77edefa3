package admission

import (
	"encoding/json"

	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/jsonwrite"
)

// What every reservation writes is appended without reflection, which costs several times as much. A test holds each of
// these against encoding/json and the struct's tags.

// appender is a body that appends itself.
type appender interface{ appendJSON(b []byte) []byte }

func (a *reserveAnswer) appendJSON(b []byte) []byte {
	o := jsonwrite.New(b)
	o.String("reservation_id", a.ReservationID)
	o.String("state", a.State)
	o.Int("rung", int64(a.Rung))
	o.String("mode", a.Mode)
	o.String("model", a.Model)
	o.Open("cache")
	o.Bool("exact", a.Cache.Exact)
	if a.Cache.SemanticThreshold == nil {
		o.Null("semantic_threshold")
	} else {
		o.String("semantic_threshold", *a.Cache.SemanticThreshold)
	}
	o.Close()
	o.Int("percent_used", a.PercentUsed)
	o.String("message", a.Message)
	o.Open("reserved")
	o.Nano("cost_usd", money.Nano(a.Reserved.CostUSD))
	o.Int("input_tokens", a.Reserved.InputTokens)
	o.Int("output_tokens", a.Reserved.OutputTokens)
	o.Close()
	o.Open("remaining")
	o.Nano("minute_usd", money.Nano(a.Remaining.MinuteUSD))
	o.Nano("day_usd", money.Nano(a.Remaining.DayUSD))
	o.Nano("month_usd", money.Nano(a.Remaining.MonthUSD))
	o.Close()
	a.Execution.member(&o)
	o.Plain("receipt", a.Receipt) // base64 and a point
	o.Plain("reserved_at", a.ReservedAt)
	o.Plain("expires_at", a.ExpiresAt)
	if len(a.Flags) > 0 {
		o.Strings("flags", a.Flags)
	}
	return o.End()
}

func (x *executionPosition) member(o *jsonwrite.Object) {
	if x == nil {
		o.Null("execution")
		return
	}
	o.Open("execution")
	o.String("root_execution_id", x.RootExecutionID)
	o.Nano("spent_usd", money.Nano(x.SpentUSD))
	if x.RemainingUSD == nil {
		o.Null("remaining_usd")
	} else {
		o.Nano("remaining_usd", money.Nano(*x.RemainingUSD))
	}
	o.Int("depth", x.Depth)
	o.Int("calls", x.Calls)
	o.Close()
}

func (a settleAnswer) appendJSON(b []byte) []byte {
	o := jsonwrite.New(b)
	o.String("reservation_id", a.ReservationID)
	o.String("state", a.State)
	o.String("status", a.Status)
	optionalUSD(&o, "cost_usd", a.CostUSD)
	optionalUSD(&o, "billed_usd", a.BilledUSD)
	o.Quoted("reserved_usd", a.ReservedUSD)
	o.Quoted("overage_usd", a.OverageUSD)
	o.Bool("estimated", a.Estimated)
	o.Bool("late", a.Late)
	o.Strings("flags", a.Flags)
	o.String("event_id", a.EventID)
	return o.End()
}

// optionalUSD is an amount, or null.
func optionalUSD(o *jsonwrite.Object, name string, a *money.USD) {
	if a == nil {
		o.Null(name)
		return
	}
	o.Quoted(name, *a)
}

func (a batchAnswer) appendJSON(b []byte) []byte {
	b = append(b, `{"results":[`...)
	for i := range a.Results {
		if i > 0 {
			b = append(b, ',')
		}
		b = a.Results[i].appendJSON(b)
	}
	return append(b, "]}"...)
}

func (r *batchResult) appendJSON(b []byte) []byte {
	o := jsonwrite.New(b)
	o.Int("status", int64(r.Status))
	if r.Reservation != nil {
		o.Appended("reservation", r.Reservation.appendJSON)
	}
	if r.Problem != nil {
		text, _ := json.Marshal(r.Problem) // cannot fail: every member encodes
		o.Raw("problem", text)
	}
	return o.End()
}
