package usageevent

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/weir-project/weir/pkg/domain/money"
)

// readData reads the members of data. Members that are not known are ignored: producers may add their own.
func readData(raw json.RawMessage) (Data, *Error) {
	o, err := members(raw, "data")
	if err != nil {
		return Data{}, err
	}
	var d Data
	if err := readNames(o, &d); err != nil {
		return Data{}, err
	}
	if d.Status = strings.ToUpper(d.Status); d.Status != "" && d.Status != "SUCCESS" && d.Status != "FAILED" && d.Status != "PARTIAL" {
		return Data{}, malformed(fmt.Sprintf("status is %q", clip(d.Status)))
	}
	if o.present("usage") {
		if _, err := members(o["usage"], "usage"); err != nil {
			return Data{}, err
		}
		d.Usage = o["usage"]
	}
	if d.Meters, err = readMeters(o, "meters"); err != nil {
		return Data{}, err
	}
	if d.Usage != nil && d.Meters != nil {
		return Data{}, malformed("both usage and meters")
	}
	if o.present("reservation") {
		if d.Reservation, err = readReservation(o["reservation"]); err != nil {
			return Data{}, err
		}
	}
	return d, nil
}

func readNames(o object, d *Data) *Error {
	text := func(limit int) func(string) (string, *Error) {
		return func(name string) (string, *Error) { return o.text(name, limit) }
	}
	for _, m := range []struct {
		name string
		to   *string
		read func(string) (string, *Error)
	}{
		{"execution_token", &d.ExecutionToken, text(MaxToken)},
		{"root_execution_id", &d.RootExecutionID, o.optionalID},
		{"reservation_id", &d.ReservationID, o.optionalID},
		{"response_id", &d.ResponseID, o.optionalID},
		{"parent_agent_id", &d.ParentAgentID, o.label},
		{"agent_id", &d.AgentID, o.label},
		{"cost_center", &d.CostCenter, o.label},
		{"provider", &d.Provider, o.label},
		{"model", &d.Model, text(MaxText)},
		{"api", &d.API, o.label},
		{"service_tier", &d.ServiceTier, o.label},
		{"status", &d.Status, text(MaxID)},
		{"error_code", &d.ErrorCode, text(MaxText)},
		{"traceparent", &d.Traceparent, text(MaxText)},
		{"tracestate", &d.Tracestate, text(MaxToken)},
	} {
		s, err := m.read(m.name)
		if err != nil {
			return err
		}
		*m.to = s
	}
	return nil
}

// readMeters reads an object of quantities; numbers and numeric strings are both accepted, as OpenMeter clients send
// them.
func readMeters(o object, name string) (map[string]money.Decimal, *Error) {
	if !o.present(name) {
		return nil, nil
	}
	m, err := members(o[name], name)
	if err != nil {
		return nil, err
	}
	if len(m) > MaxMeters {
		return nil, malformed(fmt.Sprintf("%s has %d members, more than %d", name, len(m), MaxMeters))
	}
	out := make(map[string]money.Decimal, len(m))
	for meter := range m {
		if !m.present(meter) {
			continue
		}
		if !meterName(meter) {
			return nil, malformed(fmt.Sprintf("%s: %q is not a meter's name", name, clip(meter)))
		}
		var q money.Decimal
		if err := q.UnmarshalJSON(m[meter]); err != nil {
			return nil, malformed(fmt.Sprintf("%s.%s is not a number", name, meter))
		}
		if q.Sign() < 0 {
			return nil, &Error{Reason: NegativeMeter, Detail: fmt.Sprintf("%s.%s is %s", name, meter, q)}
		}
		out[meter] = q
	}
	return out, nil
}

func meterName(s string) bool {
	if s == "" || len(s) > 64 {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool { return r != '_' && (r < 'a' || r > 'z') && (r < '0' || r > '9') })
}

func readReservation(raw json.RawMessage) (*Reservation, *Error) {
	o, err := members(raw, "reservation")
	if err != nil {
		return nil, err
	}
	r := &Reservation{}
	if r.Outcome, err = o.text("outcome", MaxID); err != nil {
		return nil, err
	}
	switch r.Outcome {
	case OutcomeSettled, OutcomeEstimated, OutcomeLate, OutcomeUnsettled:
	default:
		return nil, malformed(fmt.Sprintf("reservation.outcome is %q", clip(r.Outcome)))
	}
	if r.OwnMode, err = o.text("own_mode", MaxID); err != nil {
		return nil, err
	}
	if r.OwnMode != "" && r.OwnMode != OwnModeDirect && r.OwnMode != OwnModeJournal {
		return nil, malformed(fmt.Sprintf("reservation.own_mode is %q", clip(r.OwnMode)))
	}
	if r.PriceVersion, err = o.text("price_version", MaxText); err != nil {
		return nil, err
	}
	if err := r.readFigures(o); err != nil {
		return nil, err
	}
	r.Estimate, err = readMeters(o, "estimate")
	return r, err
}

func (r *Reservation) readFigures(o object) *Error {
	at, err := o.text("reserved_at", MaxID)
	if err != nil {
		return err
	}
	if r.ReservedAt, err = instant("reservation.reserved_at", at); err != nil {
		return err
	}
	if r.ReservedAt.Equal(time.Time{}) {
		return malformed("reservation.reserved_at is missing")
	}
	var own, held, depth int64
	for _, f := range []struct {
		name string
		to   *int64
		max  int64
	}{{"own_nanos", &own, int64(money.MaxNano)}, {"held_nanos", &held, int64(money.MaxNano)}, {"epoch", &r.Epoch, 1<<53 - 1}, {"depth", &depth, 1 << 20}} {
		if *f.to, err = o.integer(f.name, f.max); err != nil {
			return err
		}
	}
	r.OwnNanos, r.HeldNanos, r.Depth = money.Nano(own), money.Nano(held), int32(depth)
	s, err := o.text("estimate_usd", MaxID)
	if err != nil || s == "" {
		return err
	}
	usd, parseErr := money.ParseUSD(s)
	if parseErr != nil || usd.Sign() < 0 {
		return malformed("reservation.estimate_usd is not an amount")
	}
	r.EstimateUSD = &usd
	return nil
}

// integer reads a whole number from 0 to limit from its text; absent is 0.
func (o object) integer(name string, limit int64) (int64, *Error) {
	if !o.present(name) {
		return 0, nil
	}
	n, err := strconv.ParseInt(string(o[name]), 10, 64)
	if err != nil || n < 0 || n > limit {
		return 0, malformed(fmt.Sprintf("%s is not a whole number from 0 to %d", name, limit))
	}
	return n, nil
}
