package admission

import (
	"sync"
	"time"

	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/tenant"
)

// zones keeps the time zones of tenants: time.LoadLocation reads a file each time. There are no more of them than IANA
// names, since contracts are validated.
type zones struct {
	byName sync.Map
	// calendars are those of the last minute, by location.
	calendars sync.Map
}

// calendar is admit.CalendarAt, worked out once a minute for each zone.
func (s *Service) calendar(now time.Time, loc *time.Location) admit.Calendar {
	if known, ok := s.zones.calendars.Load(loc); ok {
		if c, same := known.(*admit.Calendar).Later(now); same {
			return c
		}
	}
	c := admit.CalendarAt(now, loc)
	s.zones.calendars.Store(loc, &c)
	return c
}

// zone is the tenant's time zone.
func (s *Service) zone(k tenant.Contract) (*time.Location, error) {
	if k.Timezone == "" {
		return time.UTC, nil
	}
	if known, ok := s.zones.byName.Load(k.Timezone); ok {
		return known.(*time.Location), nil
	}
	loc, err := k.Location()
	if err == nil {
		s.zones.byName.Store(k.Timezone, loc)
	}
	return loc, err
}
