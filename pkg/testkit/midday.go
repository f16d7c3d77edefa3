package testkit

import (
	"fmt"
	"time"
)

// Midday is an IANA time zone in which it is eleven or twelve o'clock now, and the same date as in UTC, whose time it is not. A
// tenant with it has its next day and its next month half a day ahead, whenever a test runs.
func Midday(now time.Time) string {
	const hour = 11
	east := hour - now.UTC().Hour()
	if east == 0 {
		east = 1
	}
	return fmt.Sprintf("Etc/GMT%+d", -east) // these zones count to the west
}
