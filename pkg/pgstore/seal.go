package pgstore

import (
	"context"
	"fmt"
)

// SetReplicationIDs records the masters of an epoch that is ready, if it has those of was until now (empty: none known).
// False, and nothing changed, otherwise.
func (s *Store) SetReplicationIDs(ctx context.Context, epoch int64, was, ids []string) (bool, error) {
	tag, err := s.pool.Exec(ctx, `UPDATE redis_epoch SET masters = $3 WHERE epoch = $1 AND masters = $2 AND state = 'ready'`,
		epoch, nonNilIDs(was), nonNilIDs(ids))
	if err != nil {
		return false, fmt.Errorf("pgstore: replication ids of epoch %d: %w", epoch, err)
	}
	return tag.RowsAffected() > 0, nil
}

// Seal records a random token that Redis is given too, once nothing writes to Redis any more: a Redis that comes back
// with it has lost nothing. TouchEpoch and RaiseEpoch break it. False if the epoch is another one or is being recovered.
func (s *Store) Seal(ctx context.Context, epoch int64, token string) (bool, error) {
	tag, err := s.pool.Exec(ctx, "UPDATE redis_epoch SET seal = $2 WHERE epoch = $1 AND state = 'ready'", epoch, token)
	if err != nil {
		return false, fmt.Errorf("pgstore: seal epoch %d: %w", epoch, err)
	}
	return tag.RowsAffected() > 0, nil
}

// Unseal uses the token up and adopts the masters that brought it back. False, and nothing changed, if that is not the
// seal of this epoch.
func (s *Store) Unseal(ctx context.Context, epoch int64, token string, ids []string) (bool, error) {
	tag, err := s.pool.Exec(ctx, "UPDATE redis_epoch SET seal = NULL, masters = $3 WHERE epoch = $1 AND seal = $2 AND state = 'ready'",
		epoch, token, nonNilIDs(ids))
	if err != nil {
		return false, fmt.Errorf("pgstore: unseal epoch %d: %w", epoch, err)
	}
	return tag.RowsAffected() > 0, nil
}

func nonNilIDs(ids []string) []string {
	if ids == nil {
		return []string{}
	}
	return ids
}
