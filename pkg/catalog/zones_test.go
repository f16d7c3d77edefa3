package catalog_test

import (
	"testing"

	"github.com/weir-project/weir/pkg/catalog"
	"github.com/weir-project/weir/pkg/domain/tenant"
)

// Goal: a zone is the contract's, is loaded once, and one that does not exist stays an error.
func TestZones(t *testing.T) {
	var zones catalog.Zones
	for _, name := range []string{"", "Europe/Berlin", "Asia/Kolkata"} {
		first, err := zones.Of(&tenant.Contract{Timezone: name})
		again, err2 := zones.Of(&tenant.Contract{Timezone: name})
		want, _ := tenant.Contract{Timezone: name}.Location()
		if err != nil || err2 != nil || first != again || first.String() != want.String() {
			t.Errorf("%q: %v, %v, %v, %v", name, first, again, err, err2)
		}
	}
	for range 2 {
		if loc, err := zones.Of(&tenant.Contract{Timezone: "Mars/Olympus"}); err == nil {
			t.Errorf("a zone that does not exist is %v", loc)
		}
	}
}
