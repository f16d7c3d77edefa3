package admission

import (
	"sync"
	"time"

	"github.com/weir-project/weir/pkg/catalog"
	"github.com/weir-project/weir/pkg/domain/admit"
)

// zones are the time zones of tenants, and their calendars of the last minute by location.
type zones struct {
	catalog.Zones
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
