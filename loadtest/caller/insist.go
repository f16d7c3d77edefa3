package caller

import (
	"context"
	"errors"
	"time"
)

// lostWait is how long to wait after an answer that was lost (a service that is starting again, a broken connection).
const lostWait = 50 * time.Millisecond

// Insist calls do until it succeeds or is refused for good: a refusal with Retry-After is repeated when it says so, a
// lost answer soon. seen (nil = nobody) is told of every refusal. It ends with ctx.
func Insist(ctx context.Context, seen func(*Refusal), do func() error) error {
	for {
		err := do()
		if err == nil {
			return nil
		}
		wait := lostWait
		var r *Refusal
		if errors.As(err, &r) {
			if seen != nil {
				seen(r)
			}
			if r.RetryAfter <= 0 {
				return err
			}
			wait = r.RetryAfter
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}
