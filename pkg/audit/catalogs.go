package audit

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/gen/weirv1"
)

// catalogs are what entries are held against beside themselves.
type catalogs struct {
	tenants map[string]contracts
	// prices are the ids of all price versions ever published.
	prices map[string]bool
}

// contract is what the books take from one version of a tenant's contract.
type contract struct {
	from   time.Time
	zone   *time.Location
	markup string // percent, plain form
	scopes []scope
}

// contracts are a tenant's versions, the oldest first; never empty.
type contracts []contract

// at is the zone in force at a time.
func (c contracts) at(t time.Time) *time.Location { return c.version(t).zone }

// version is the contract in force at a time; before the first version it is the first version.
func (c contracts) version(t time.Time) contract {
	in := c[0]
	for _, v := range c[1:] {
		if !v.from.After(t) {
			in = v
		}
	}
	return in
}

// hasMarkup reports whether any version has this markup. Which one was in force when the event was booked depends on
// what the attributor had read by then, so any will do.
func (c contracts) hasMarkup(percent string) bool {
	for _, v := range c {
		if v.markup == percent {
			return true
		}
	}
	return false
}

// readCatalogs reads tenants and prices from their topics. A record that cannot be read is a difference: the services
// keep the last good one of its key, so that does this.
func readCatalogs(ctx context.Context, log *bus.Conn, r *Report) (catalogs, error) {
	all := catalogs{tenants: map[string]contracts{}, prices: map[string]bool{}}
	for _, source := range []struct {
		topic bus.Topic
		take  func(bus.Record) error
	}{{topics.CatalogTenants, all.takeTenant}, {topics.CatalogPrices, all.takePrices}} {
		err := readTopic(ctx, log, source.topic, func(rec bus.Record) {
			if err := source.take(rec); err != nil {
				r.differ("catalog", fmt.Sprintf("%s %s", source.topic.Name(), rec.Key), "a readable record", err.Error())
			}
		})
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

func (a catalogs) takeTenant(rec bus.Record) error {
	m := new(weirv1.TenantHistory)
	if err := proto.Unmarshal(rec.Value, m); err != nil {
		return err
	}
	var c contracts
	for _, v := range m.GetVersions() {
		zone, err := time.LoadLocation(v.GetTimezone()) // "" is UTC
		if err != nil {
			return err
		}
		c = append(c, contract{v.GetEffectiveFrom().AsTime(), zone, plain(orZero(v.GetMarkupPercent())), scopesOfVersion(v)})
	}
	if len(c) > 0 { // a tombstone leaves what was known: its usage stays in the books
		a.tenants[m.GetTenantId()] = c
	}
	return nil
}

func (a catalogs) takePrices(rec bus.Record) error {
	m := new(weirv1.PriceHistory)
	if err := proto.Unmarshal(rec.Value, m); err != nil {
		return err
	}
	for _, v := range m.GetVersions() {
		a.prices[v.GetId()] = true
	}
	return nil
}
