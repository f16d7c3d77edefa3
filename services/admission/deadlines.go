package admission

import (
	"context"
	"sync/atomic"
	"time"
)

// deadlines are contexts that only time ends, each shared by the calls of a hundredth of what it lasts. A timer for each
// step of each call, set only to be stopped, was a twentieth of a settle.
type deadlines struct {
	latest atomic.Pointer[context.Context]
}

// joins is how many parts the time that a context lasts has: calls join it for one more. So many and one live at once.
const joins = 100

// within is a context that lasts as long as it may at most, and up to a hundredth longer.
func (d *deadlines) within(most time.Duration) context.Context {
	if latest := d.latest.Load(); latest != nil {
		return *latest
	}
	ctx, cancel := context.WithTimeout(context.Background(), most+most/joins)
	context.AfterFunc(ctx, cancel)
	made := &ctx
	d.latest.Store(made) // of two at once one is shared; both end
	time.AfterFunc(most/joins, func() { d.latest.CompareAndSwap(made, nil) })
	return ctx
}
