package admission

import (
	"context"
	"sync/atomic"
	"time"
)

// deadlines are contexts that only time ends, each shared by the calls of a hundredth of what it lasts. A timer for each
// step of each call, set only to be stopped, was a twentieth of a settle.
type deadlines struct{ latest atomic.Pointer[deadline] }

type deadline struct {
	ctx  context.Context
	ends time.Time
}

// joins is how many parts the time that a context lasts has: calls join it for one more. So many and one live at once.
const joins = 100

// within is a context that lasts as long as it may at most, and up to a hundredth longer.
func (d *deadlines) within(most time.Duration) context.Context {
	now := time.Now() // of the clock that context goes by
	if l := d.latest.Load(); l != nil && !l.ends.Before(now.Add(most)) {
		return l.ctx
	}
	ends := now.Add(most + most/joins)
	ctx, cancel := context.WithDeadline(context.Background(), ends)
	context.AfterFunc(ctx, cancel)
	d.latest.Store(&deadline{ctx, ends}) // of two at once one is shared; both end
	return ctx
}
