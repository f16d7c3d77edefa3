package usageevent

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-project/weir/pkg/domain/money"
)

// readData reads the members of data. Members that are not known are ignored: producers may add their own.
func readData(raw json.RawMessage, signed bool) (Data, *Error) {
	o, err := members(raw, "data")
	if err != nil {
		return Data{}, err
	}
	if !signed {
		leaveOut(o)
	}
	var d Data
	if err := readNames(o, &d); err != nil {
		return Data{}, err
	}
	if d.Status = strings.ToUpper(d.Status); d.Status != "" && !isStatus(d.Status) {
		return Data{}, malformed(fmt.Sprintf("status is %q", clip(d.Status)))
	}
	if o.present("usage") {
		if err := checkUsage(o["usage"]); err != nil {
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
	if err := checkCacheHit(d); err != nil {
		return Data{}, err
	}
	if o.present("reservation") {
		if d.Reservation, err = readReservation(o["reservation"]); err != nil {
			return Data{}, err
		}
	}
	return d, nil
}

// leaveOut takes away what only Weir may say where it cannot be read: from anybody else it is ignored, whatever it is. What
// can be read stays, unbelieved, because it is part of the ContentHash.
func leaveOut(o object) {
	if _, err := o.text("api_key_id", MaxID); err != nil {
		delete(o, "api_key_id")
	}
	if o.present("reservation") {
		if _, err := readReservation(o["reservation"]); err != nil {
			delete(o, "reservation")
		}
	}
}

// kind is what a text member of data is, and so which texts it may be.
type kind int

const (
	asText  kind = iota
	asID         // an id: absent, or neither empty nor the text of a null
	asToken      // a credential: absent, or not empty
	asLabel      // says where a cost belongs but identifies nothing: the text of a null is absent
)

// member is a text member of data: what it may be, and where it is.
type member struct {
	name  string
	to    *string
	kind  kind
	limit int
}

// texts are the text members: the one list of what they may be. Decode reads by it, Check judges by it.
func (d *Data) texts() [17]member {
	return [...]member{
		{"execution_token", &d.ExecutionToken, asToken, MaxToken},
		{"root_execution_id", &d.RootExecutionID, asID, MaxID},
		{"reservation_id", &d.ReservationID, asID, MaxID},
		{"response_id", &d.ResponseID, asID, MaxID},
		{"parent_agent_id", &d.ParentAgentID, asLabel, MaxID},
		{"agent_id", &d.AgentID, asLabel, MaxID},
		{"cost_center", &d.CostCenter, asLabel, MaxID},
		{"provider", &d.Provider, asLabel, MaxID},
		{"model", &d.Model, asText, MaxText},
		{"api", &d.API, asLabel, MaxID},
		{"service_tier", &d.ServiceTier, asLabel, MaxID},
		{"cache_hit", &d.CacheHit, asText, MaxID},
		{"status", &d.Status, asText, MaxID},
		{"error_code", &d.ErrorCode, asText, MaxText},
		{"traceparent", &d.Traceparent, asText, MaxText},
		{"tracestate", &d.Tracestate, asText, MaxToken},
		{"api_key_id", &d.APIKeyID, asLabel, MaxID},
	}
}

func readNames(o object, d *Data) *Error {
	for _, m := range d.texts() {
		s, err := o.text(m.name, m.limit)
		switch {
		case err != nil:
			return err
		case m.kind == asID && o.present(m.name):
			err = requiredID(m.name, s, m.limit)
		case m.kind == asToken && s == "" && o.present(m.name):
			err = malformed(m.name + " is empty: leave it out where there is none")
		case m.kind == asLabel && textOfNull(s):
			s = ""
		}
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
	if !isOutcome(r.Outcome) {
		return nil, malformed(fmt.Sprintf("reservation.outcome is %q", clip(r.Outcome)))
	}
	if r.OwnMode, err = o.text("own_mode", MaxID); err != nil {
		return nil, err
	}
	if r.OwnMode != "" && !isOwnMode(r.OwnMode) {
		return nil, malformed(fmt.Sprintf("reservation.own_mode is %q", clip(r.OwnMode)))
	}
	if r.PriceVersion, err = o.text("price_version", MaxText); err != nil {
		return nil, err
	}
	if err := r.readFigures(o); err != nil {
		return nil, err
	}
	if r.Flags, err = readFlags(o); err != nil {
		return nil, err
	}
	if r.Estimate, err = readMeters(o, "estimate"); err != nil {
		return nil, err
	}
	if err := r.readBranches(o); err != nil {
		return nil, err
	}
	return r, r.readScopes(o)
}

// readBranches reads a list of ids. One that is none is an error, for the reason of readScopes.
func (r *Reservation) readBranches(o object) *Error {
	if !o.present("branches") {
		return nil
	}
	if json.Unmarshal(o["branches"], &r.Branches) != nil || len(r.Branches) > MaxBranches {
		return malformed("reservation.branches is not a list of branches")
	}
	for i, id := range r.Branches {
		if err := requiredID("reservation.branches", id, MaxID); err != nil {
			return err
		}
		if slices.Contains(r.Branches[:i], id) {
			return malformed("reservation.branches has one twice")
		}
	}
	return nil
}

// readScopes reads an object with the name of one sub-scope of each kind. Kinds that are not known are an error: what
// counts somewhere must not be lost.
func (r *Reservation) readScopes(o object) *Error {
	if !o.present("scopes") {
		return nil
	}
	names, err := members(o["scopes"], "reservation.scopes")
	if err != nil {
		return err
	}
	for kind := range names {
		if !isScopeKind(kind) {
			return malformed(fmt.Sprintf("reservation.scopes: %q is not a kind", clip(kind)))
		}
		name, err := names.text(kind, MaxID)
		if err != nil {
			return err
		}
		if err := requiredID("reservation.scopes."+kind, name, MaxID); err != nil {
			return err
		}
		if r.Scopes == nil {
			r.Scopes = map[string]string{}
		}
		r.Scopes[kind] = name
	}
	return nil
}

func isScopeKind(kind string) bool {
	return kind == "cost_center" || kind == "agent" || kind == "api_key"
}

// Bounds of a reservation's figures beside those of money.
const (
	maxReservationEpoch = 1<<53 - 1
	maxDepth            = 1 << 20
	maxDay              = 99991231
)

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
	var own, held, depth, day int64
	for _, f := range []struct {
		name string
		to   *int64
		max  int64
	}{{"own_nanos", &own, int64(money.MaxNano)}, {"held_nanos", &held, int64(money.MaxNano)}, {"epoch", &r.Epoch, maxReservationEpoch}, {"depth", &depth, maxDepth},
		{"day", &day, maxDay}} {
		if *f.to, err = o.integer(f.name, f.max); err != nil {
			return err
		}
	}
	r.OwnNanos, r.HeldNanos, r.Depth, r.Day = money.Nano(own), money.Nano(held), int32(depth), int32(day)
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
