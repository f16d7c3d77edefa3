package audit

import "fmt"

// bound is where every counter of Redis is held: 2^53 - 1 nano-dollars, $9,007,199.254740991, since numbers in Lua are doubles. A
// settle or usage that would pass it leaves the counter there, which blocks further admission; what is past it the counter
// does not know, and what other holds give back when they end is taken from the bound.
const bound = 1<<53 - 1

// sameCounter holds what a counter says, held apart, against the journal. One that has been held at its bound says no more than that it
// is near: nearer than half of it, since open holds are a small part of such an amount.
func sameCounter(r *Report, what string, expected, found, held int64) {
	switch {
	case expected+held <= bound && expected >= -bound:
		same(r, "redis", what, expected, found)
	case expected > 0 && (found > bound || found < bound/2), expected < 0 && (found < -bound || found > -bound/2):
		r.differ("redis", what, fmt.Sprintf("about %d, where every counter is held (the journal has %d)", bound, expected), fmt.Sprint(found))
	}
}
