package admit

import (
	"fmt"

	"github.com/weir-project/weir/pkg/domain/ladder"
	"github.com/weir-project/weir/pkg/domain/window"
)

// Effect says whether a call only reads or also changes something outside,
// such as sending or paying: from rung 2 on that is refused.
type Effect uint8

// The effects of a call.
const (
	Read Effect = iota
	Write
)

// Ask is what one reservation asks for.
type Ask struct {
	Estimate Estimate
	// Saving is the estimate at the plan's cheaper model, reserved instead from
	// rung 2 on; nil without one.
	Saving *Estimate
	Effect Effect
	// Scopes are the tenant's sub-scopes that the call counts in, at most MaxScopes.
	Scopes []ScopeLimit
}

// MaxScopes bounds the sub-scopes of one call: one of each kind.
const MaxScopes = 3

// ScopeLimit is one sub-scope of a tenant with its own ceilings, NoCeiling for
// a window without one.
type ScopeLimit struct {
	Kind window.ScopeKind
	ID   string
	// Star: the ceilings are those of the plan's "*", which holds for each value
	// that it does not name. The number of such values is bounded by the store.
	Star               bool
	Minute, Day, Month Ceiling
}

// at is what is reserved on a rung, and whether it is the saving.
func (a Ask) at(rung ladder.Rung) (Estimate, bool) {
	if a.Saving != nil && rung >= ladder.Saving {
		return *a.Saving, true
	}
	return a.Estimate, false
}

// barred is the refusal of a write on a rung; "" for none.
func (a Ask) barred(rung ladder.Rung) Code {
	switch {
	case a.Effect == Read || rung < ladder.Saving:
		return ""
	case rung == ladder.Saving:
		return ToolDeferred
	default:
		return ReadOnlyMode
	}
}

// Validate reports the first value out of range, wrapping ErrInvalid.
func (a Ask) Validate() error {
	if err := a.Estimate.Validate(); err != nil {
		return err
	}
	if a.Saving != nil {
		if err := a.Saving.Validate(); err != nil {
			return err
		}
	}
	if a.Effect > Write {
		return fmt.Errorf("%w: effect %d", ErrInvalid, a.Effect)
	}
	if len(a.Scopes) > MaxScopes {
		return fmt.Errorf("%w: %d sub-scopes, at most %d", ErrInvalid, len(a.Scopes), MaxScopes)
	}
	for i, s := range a.Scopes {
		if err := s.validate(); err != nil {
			return err
		}
		for _, before := range a.Scopes[:i] {
			if before.Kind == s.Kind {
				return fmt.Errorf("%w: two sub-scopes of kind %q", ErrInvalid, s.Kind)
			}
		}
	}
	return nil
}

func (s ScopeLimit) validate() error {
	if !s.Kind.Known() {
		return fmt.Errorf("%w: sub-scope of kind %q", ErrInvalid, s.Kind)
	}
	for _, c := range []Ceiling{s.Minute, s.Day, s.Month} {
		if c.Limit < 0 || c.Cap < c.Limit || int64(c.Cap) > Unlimited {
			return fmt.Errorf("%w: ceiling %+v of sub-scope %s %q", ErrLimit, c, s.Kind, s.ID)
		}
	}
	return nil
}
