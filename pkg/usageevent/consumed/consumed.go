// Package consumed reads what a usage event says was used. It is the one reading that there is: admission's ingest asks it
// before it acknowledges an event, and the attributor when it books one, so that what can be told at once is told with the
// reason that the dead letter would have.
//
// It knows of no price and of nobody's contract: what depends on those is not an error here.
package consumed

import (
	"cmp"
	"encoding/json"
	"errors"

	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/usage"
	"github.com/weir-project/weir/pkg/usageevent"
)

// Reasons that this package gives, beside those of pkg/usageevent.
const (
	// UnknownAPI: there are no rules for this provider's usage object.
	UnknownAPI usageevent.Reason = "unknown_api"
	// UnknownMeter: there is no meter of that name.
	UnknownMeter usageevent.Reason = "unknown_meter"
	// Aggregate: it sums up calls that are billed on their own.
	Aggregate usageevent.Reason = "aggregate"
	// NoProvider, NoModel: nothing says whose price it has. That is not an unknown price, which may come.
	NoProvider usageevent.Reason = "no_provider"
	NoModel    usageevent.Reason = "no_model"
	// NoUsage: nothing says what a call used that did not fail.
	NoUsage usageevent.Reason = "no_usage"
)

// Usage is what d says was used: the provider's object normalised, the sender's own meters, or those of the estimate where
// admission says that it stands in for them. A cache hit used nothing. Whoever does not believe a reservation leaves it out
// of d. The error is a *usageevent.Error.
func Usage(d usageevent.Data) (usage.Usage, error) {
	if d.Reservation != nil { // admission knew whose call it was, and has acknowledged it
		return read(d)
	}
	if usageevent.IsNothing(d.Provider) {
		return usage.Usage{}, &usageevent.Error{Reason: NoProvider, Detail: "provider is missing"}
	}
	u, err := read(d)
	if err == nil && usageevent.IsNothing(cmp.Or(d.Model, u.Model)) {
		return u, &usageevent.Error{Reason: NoModel, Detail: "model is missing, and the usage does not name one"}
	}
	return u, err
}

func read(d usageevent.Data) (usage.Usage, error) {
	u := usage.FromMeters(usage.Meters{})
	var err error
	switch r := d.Reservation; {
	case d.CacheHit != "":
		return u, nil
	case r != nil && (r.Outcome == usageevent.OutcomeEstimated || r.Outcome == usageevent.OutcomeUnsettled):
		u, err = fromMeters(r.Estimate)
	case d.Usage != nil:
		u, err = usage.Normalise(d.Provider, d.API, d.Usage)
	case len(d.Meters) > 0 || d.Meters != nil && r != nil: // an earlier admission wrote none where all were zero
		u, err = fromMeters(d.Meters)
	default:
		u.Flags = []string{usage.FlagMissing}
	}
	switch {
	case err != nil:
		return u, &usageevent.Error{Reason: reasonOf(err), Detail: err.Error()}
	case u.Missing() && (d.Status == "SUCCESS" || d.Status == ""):
		return u, &usageevent.Error{Reason: NoUsage, Detail: missing(d) + ", and the status is not FAILED or PARTIAL"}
	}
	return u, nil
}

func fromMeters(m map[string]money.Decimal) (usage.Usage, error) {
	numbers := make(map[string]json.Number, len(m))
	for name, q := range m {
		numbers[name] = json.Number(q.String())
	}
	meters, err := usage.ParseMeters(numbers)
	return usage.FromMeters(meters), err
}

func reasonOf(err error) usageevent.Reason {
	for _, known := range []struct {
		err    error
		reason usageevent.Reason
	}{
		{usage.ErrUnknownAPI, UnknownAPI}, {usage.ErrUnknownMeter, UnknownMeter}, {usage.ErrAggregate, Aggregate}, {usage.ErrNegative, usageevent.NegativeMeter},
	} {
		if errors.Is(err, known.err) {
			return known.reason
		}
	}
	return usageevent.Malformed
}
