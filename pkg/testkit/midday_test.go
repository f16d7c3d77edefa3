package testkit_test

import (
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/testkit"
)

// Whatever the time, it is about noon there, of the same day.
func TestMidday(t *testing.T) {
	for hour := range 24 {
		now := time.Date(2026, 11, 30, hour, 59, 59, 0, time.UTC)
		zone := testkit.Midday(now)
		loc, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		if at := now.In(loc); at.Hour() != 11 && at.Hour() != 12 || at.Day() != 30 || at.Hour() == hour {
			t.Errorf("at %d: %s in %s", hour, at, zone)
		}
	}
}
