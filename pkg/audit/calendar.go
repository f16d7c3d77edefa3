package audit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/gen/weirv1"
)

// calendar is a tenant's time zones, the oldest first.
type calendar []struct {
	from time.Time
	zone *time.Location
}

// at is the zone in force at a time; before the first version it is the first version's.
func (c calendar) at(t time.Time) *time.Location {
	zone := c[0].zone
	for _, v := range c[1:] {
		if !v.from.After(t) {
			zone = v.zone
		}
	}
	return zone
}

// readCalendars reads every tenant's time zones from the catalog.
func readCalendars(ctx context.Context, log *bus.Conn) (map[string]calendar, error) {
	all := map[string]calendar{}
	for p := range int32(topics.CatalogTenants.Partitions()) {
		err := log.ReadPartition(ctx, topics.CatalogTenants, p, -1, -1, func(rec bus.Record) error {
			m := new(weirv1.TenantHistory)
			if err := proto.Unmarshal(rec.Value, m); err != nil {
				return fmt.Errorf("tenant %s: %w", rec.Key, err)
			}
			var c calendar
			for _, v := range m.GetVersions() {
				zone, err := time.LoadLocation(v.GetTimezone()) // "" is UTC
				if err != nil {
					return fmt.Errorf("tenant %s: %w", rec.Key, err)
				}
				c = append(c, struct {
					from time.Time
					zone *time.Location
				}{v.GetEffectiveFrom().AsTime(), zone})
			}
			if len(c) > 0 {
				all[m.GetTenantId()] = c
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	if len(all) == 0 {
		return nil, errors.New("the catalog has no tenants")
	}
	return all, nil
}
