//go:build integration

package outbox_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/weir-project/weir/pkg/outbox"
)

const (
	orderKeys    = 5
	orderWriters = 8
	orderRounds  = 60
)

// TestOrderPerKey: eight writers with random delays, several keys per transaction and random rollbacks, against a reader
// with random batch limits that rotates all the time and often forgets what it read or is replaced by another session.
// Each key's row holds a counter under its lock, so the commit order of a key is 1, 2, 3 …: the first sight of each
// event must come in exactly that order, without a gap, up to the counter's committed value.
func TestOrderPerKey(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	url := database(t)
	admin := connect(t, url)
	exec(t, admin, "CREATE TABLE counter (key text PRIMARY KEY, n bigint NOT NULL)")
	exec(t, admin, "INSERT INTO counter SELECT 'k' || i, 0 FROM generate_series(0, $1::int - 1) i", orderKeys)

	var writers sync.WaitGroup
	for i := range orderWriters {
		conn := connect(t, url)
		writers.Go(func() { orderWriter(t, conn, rand.New(rand.NewPCG(seed, uint64(i)))) })
	}
	quiet := make(chan struct{})
	go func() { writers.Wait(); close(quiet) }()

	seen := map[string]int64{}
	orderReader(t, url, rand.New(rand.NewPCG(seed, 99)), quiet, seen)
	for i := range orderKeys {
		key := fmt.Sprintf("k%d", i)
		var n int64
		if err := admin.QueryRow(t.Context(), "SELECT n FROM counter WHERE key = $1", key).Scan(&n); err != nil {
			t.Fatal(err)
		}
		if seen[key] != n || n == 0 {
			t.Errorf("%s: %d committed, %d published", key, n, seen[key])
		}
	}
}

func orderWriter(t *testing.T, conn *pgx.Conn, random *rand.Rand) {
	for range orderRounds {
		err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
			delay := func() error {
				_, err := tx.Exec(t.Context(), "SELECT pg_sleep($1::int / 1e6)", random.IntN(4000))
				return err
			}
			if random.IntN(3) == 0 { // a transaction number taken long before the lock: its order is not the commit order
				if _, err := tx.Exec(t.Context(), "SELECT pg_current_xact_id()"); err != nil {
					return err
				}
			}
			for key := random.IntN(2); key < orderKeys; key += 1 + random.IntN(orderKeys) { // ascending: no deadlock
				if err := orderAppend(t.Context(), tx, fmt.Sprintf("k%d", key)); err != nil {
					return err
				}
				if err := delay(); err != nil {
					return err
				}
			}
			if random.IntN(4) == 0 {
				return errRollback
			}
			return nil
		})
		if err != nil && err != errRollback {
			t.Errorf("writer: %v", err)
			return
		}
	}
}

var errRollback = fmt.Errorf("rolled back on purpose")

func orderAppend(ctx context.Context, tx pgx.Tx, key string) error {
	var n int64
	if err := tx.QueryRow(ctx, "UPDATE counter SET n = n + 1 WHERE key = $1 RETURNING n", key).Scan(&n); err != nil {
		return err
	}
	return outbox.Append(ctx, tx, event(key, fmt.Sprint(n)))
}

// orderReader drains until the writers are quiet and nothing is left. seen is the highest number of each key.
func orderReader(t *testing.T, url string, random *rand.Rand, quiet <-chan struct{}, seen map[string]int64) {
	s := lead(t, url)
	emptied := 0
	for last := false; ; {
		b := next(t, s, outbox.Limits{Rows: 1 + random.IntN(20), Bytes: int64(1 + random.IntN(200))})
		for _, r := range b.Rows {
			var n int64
			if _, err := fmt.Sscan(r.ID, &n); err != nil {
				t.Fatal(err)
			}
			if n > seen[r.AggregateID]+1 {
				t.Fatalf("%s: %d after %d", r.AggregateID, n, seen[r.AggregateID])
			}
			seen[r.AggregateID] = max(n, seen[r.AggregateID])
		}
		switch random.IntN(8) {
		case 0: // crash before the cursor moved
			if err := s.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			s = lead(t, url)
			continue
		case 1: // batch forgotten
			continue
		}
		if len(b.Rows) > 0 {
			advance(t, s, b)
		} else if last {
			t.Logf("%d slots emptied on the way", emptied)
			return
		}
		emptied += rotate(t, s).Emptied
		select {
		case <-quiet:
			last = len(b.Rows) == 0
		default:
		}
	}
}
