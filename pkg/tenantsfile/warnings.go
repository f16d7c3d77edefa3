package tenantsfile

import "fmt"

// Warnings are what a file may say but seldom means: a ceiling that a shorter window's ceiling makes unreachable, or that
// makes it so. In the order of the tenants.
func (f File) Warnings() []string {
	var out []string
	for _, id := range f.IDs() {
		c := f.Contracts[id].Ceilings
		if c.Month < c.Day {
			out = append(out, fmt.Sprintf("tenant %q: month_usd %s is below day_usd %s", id, c.Month.USD(), c.Day.USD()))
		}
		if c.Day < c.Minute {
			out = append(out, fmt.Sprintf("tenant %q: day_usd %s is below minute_usd %s", id, c.Day.USD(), c.Minute.USD()))
		}
	}
	return out
}
