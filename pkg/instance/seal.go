package instance

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/domain/recovery"
	"github.com/weir-project/weir/pkg/pgstore"
)

// errNotSealed: the counters are not those that a seal would vouch for.
var errNotSealed = errors.New("the budget store is not whole, or is being recovered")

// seal leaves the same random token in Postgres and in Redis, now that nobody writes to Redis any more. A Redis that comes
// back with it has lost nothing, so the next start needs no recovery (ADR 0009). It takes what `weir down` has left: where
// it is late on a busy machine, the next start waits for the longest lease.
func seal(by time.Time, s State) error {
	ctx, cancel := context.WithDeadline(context.Background(), by)
	defer cancel()
	postgres, _ := s.Part("postgres")
	redis, _ := s.Part("redis")
	pg, err := pgstore.Open(ctx, postgres.Address)
	if err != nil {
		return err
	}
	defer pg.Close()
	rd, err := budgetstore.Open(ctx, redis.Address, budgetstore.Options{})
	if err != nil {
		return err
	}
	defer func() { _ = rd.Close() }()
	row, known, err := pg.EpochRow(ctx)
	if err != nil {
		return err
	}
	now, err := rd.Inspect(ctx)
	if err != nil {
		return err
	}
	verdict, _ := recovery.Judge(recovery.Row{Epoch: row.Epoch, Recovering: row.Recovering, ReplicationIDs: row.ReplicationIDs},
		recovery.Redis{Epoch: now.Epoch, ReplicationIDs: now.ReplicationIDs})
	if !known || verdict != recovery.Serve {
		return errNotSealed
	}
	token := rand.Text()
	sealed, err := pg.Seal(ctx, row.Epoch, token)
	if err == nil && !sealed {
		err = errNotSealed
	}
	if err != nil {
		return err
	}
	return rd.Seal(ctx, token) // last: whatever Redis keeps of it, it keeps everything before it
}
