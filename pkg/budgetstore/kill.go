package budgetstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/weir-project/weir/pkg/domain/admit"
)

// killKey is one hash for all tenants: scope → version (20 digits), on (1 or 0), reason. At most admit.MaxKills fields,
// no TTL. It mirrors control.killswitch.v1 for replicas that have lost Kafka.
const killKey = "w:kill"

// The head of a mirrored kill has a fixed width, so that the script compares it as text: a Lua number is a double.
const killHead = 21

// mirrorScript keeps the highest version; of two equal ones the one that stops, because "1" is above "0".
const mirrorScript = `for i = 1, #ARGV, 2 do
  local old = redis.call('HGET', KEYS[1], ARGV[i])
  if not old or string.sub(old, 1, 21) < string.sub(ARGV[i + 1], 1, 21) then
    redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
  end
end
return 1`

// Kills reads the mirrored kill switches. Where some of them do not decode, the others are returned beside the error.
func (s *Store) Kills(ctx context.Context) ([]admit.Kill, error) {
	all, err := s.client.HGetAll(ctx, killKey).Result()
	if err != nil {
		return nil, fmt.Errorf("%w: kills: %w", ErrUnavailable, err)
	}
	kills, errs := make([]admit.Kill, 0, len(all)), []error(nil)
	for scope, text := range all {
		k, err := parseKill(scope, text)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		kills = append(kills, k)
	}
	return kills, errors.Join(errs...)
}

// MirrorKills writes kills where they are newer than what is there. It may be repeated, by any replica, in any order.
func (s *Store) MirrorKills(ctx context.Context, kills []admit.Kill) error {
	if len(kills) == 0 {
		return nil
	}
	args := make([]any, 0, 2*len(kills))
	for _, k := range kills {
		if err := k.Validate(); err != nil {
			return err
		}
		args = append(args, string(k.Scope), formatKill(k))
	}
	if err := redis.NewScript(mirrorScript).Run(ctx, s.client, []string{killKey}, args...).Err(); err != nil {
		return fmt.Errorf("%w: mirror kills: %w", ErrUnavailable, err)
	}
	return nil
}

func formatKill(k admit.Kill) string {
	on := "0"
	if k.On {
		on = "1"
	}
	return fmt.Sprintf("%020d", k.Version) + on + k.Reason
}

func parseKill(scope, text string) (admit.Kill, error) {
	if len(text) < killHead || text[killHead-1] != '0' && text[killHead-1] != '1' {
		return admit.Kill{}, fmt.Errorf("%w: mirrored kill of %.40q", admit.ErrInvalid, scope)
	}
	version, err := strconv.ParseInt(text[:killHead-1], 10, 64)
	if err != nil {
		return admit.Kill{}, fmt.Errorf("%w: mirrored kill of %.40q", admit.ErrInvalid, scope)
	}
	k := admit.Kill{Scope: admit.KillScope(scope), On: text[killHead-1] == '1', Reason: text[killHead:], Version: version}
	return k, k.Validate()
}
