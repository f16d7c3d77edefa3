package budgetstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Use is how a one-time value stands.
type Use uint8

// States of a one-time value.
const (
	// UseMine: the caller holds it, until it spends it or its hold ends.
	UseMine Use = iota
	// UseHeld: another attempt holds it; that one may still fail.
	UseHeld
	// UseSpent: it was used.
	UseSpent
)

// What a one-time value holds: who tries, or who has used it.
const (
	useHeld  = "held:"
	useSpent = "spent:"
)

// spendScript turns a hold into a use, once; the same owner may ask again.
const spendScript = `local now = redis.call('GET', KEYS[1])
if now == 'held:' .. ARGV[1] then
  redis.call('SET', KEYS[1], 'spent:' .. ARGV[1], 'PX', ARGV[2])
  return 1
end
if now == 'spent:' .. ARGV[1] then return 1 end
return 0`

// HoldUse takes a one-time value (a webhook's signature, hashed by the caller) for one attempt. owner is random. The hold
// ends by itself: what a lost answer, or a command that Redis ran late, leaves behind is in nobody's way for longer.
func (s *Store) HoldUse(ctx context.Context, value, owner string, hold time.Duration) (Use, error) {
	old, err := s.client.SetArgs(ctx, useKey(value), useHeld+owner, redis.SetArgs{Mode: "NX", TTL: hold, Get: true}).Result()
	switch {
	case errors.Is(err, redis.Nil) || err == nil && old == useHeld+owner: // the latter: the client's own second try
		return UseMine, nil
	case err != nil:
		return UseHeld, fmt.Errorf("%w: hold use: %w", ErrUnavailable, err)
	case strings.HasPrefix(old, useSpent):
		return UseSpent, nil
	default:
		return UseHeld, nil
	}
}

// SpendUse uses what HoldUse took and remembers it for ttl; false if the hold had ended. Each costs one key of about
// 150 B until then, so memory is bounded by the rate of verified webhooks: of Slack's, 0.1 MB for each a second.
func (s *Store) SpendUse(ctx context.Context, value, owner string, ttl time.Duration) (bool, error) {
	done, err := redis.NewScript(spendScript).Run(ctx, s.client, []string{useKey(value)}, owner, millis(ttl)).Int()
	if err != nil {
		return false, fmt.Errorf("%w: spend use: %w", ErrUnavailable, err)
	}
	return done == 1, nil
}

func useKey(value string) string { return "w:used:" + value }
