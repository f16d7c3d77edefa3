package catalog

import (
	"sync"
	"time"

	"github.com/weir-project/weir/pkg/domain/tenant"
)

// Zones keeps the time zones of contracts by name: time.LoadLocation reads a file each time. There are no more of them than IANA
// names, since contracts are validated. The zero value is ready, and safe for concurrent use.
type Zones struct{ byName sync.Map }

// Of is the contract's time zone. An error means that this machine lacks it; it is not kept.
func (z *Zones) Of(c *tenant.Contract) (*time.Location, error) {
	if c.Timezone == "" {
		return time.UTC, nil
	}
	if known, ok := z.byName.Load(c.Timezone); ok {
		return known.(*time.Location), nil
	}
	loc, err := c.Location()
	if err == nil {
		z.byName.Store(c.Timezone, loc)
	}
	return loc, err
}
