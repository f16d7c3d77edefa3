package pricing

import (
	"errors"
	"fmt"

	"github.com/weir-project/weir/pkg/domain/usage"
)

// UnpricedError says that there is no price: not that it is zero. Meters is
// empty when the book has no version for the model at that time.
type UnpricedError struct {
	Provider, Model string
	Meters          []usage.Meter
}

func (e *UnpricedError) Error() string {
	if len(e.Meters) == 0 {
		return fmt.Sprintf("unpriced: no price for provider %.64q, model %.128q", e.Provider, e.Model)
	}
	return fmt.Sprintf("unpriced: %s %s has no rate for %v", e.Provider, e.Model, e.Meters)
}

// ErrNoUsage says that a usage is missing, so its cost is unknown: estimate.
var ErrNoUsage = errors.New("no usage to price")

// ErrInvalid says that a price version breaks a rule of the book.
var ErrInvalid = errors.New("invalid price version")
