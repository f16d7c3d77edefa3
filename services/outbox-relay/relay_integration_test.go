//go:build integration

package outboxrelay

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/outbox"
)

var errKilled = errors.New("killed by the test")

// chaos runs one relay after the other in the same place. After an acknowledgement, and sometimes before, a relay may be
// killed: its cursor does not move, and its session goes without a word. The first of all batches kills in any case.
func chaos(ctx context.Context, t *testing.T, cfg Config, produce func(context.Context, ...bus.Record) error, random *rand.Rand, kills *atomic.Int64) {
	for ctx.Err() == nil {
		life, kill := context.WithCancel(ctx)
		r := newRelay(t, cfg, func(ctx context.Context, records ...bus.Record) error {
			fate := random.IntN(6)
			if kills.Load() == 0 {
				fate = 0
			}
			switch fate {
			case 0: // after the ack, before the cursor
				if err := produce(ctx, records...); err != nil {
					return err
				}
				kills.Add(1)
				kill()
				return errKilled
			case 1: // part of the batch reached the broker
				if err := produce(ctx, records[:len(records)/2]...); err != nil {
					return err
				}
				kills.Add(1)
				kill()
				return errKilled
			}
			return produce(ctx, records...)
		})
		if err := r.run(life); err != nil {
			t.Errorf("relay: %v", err)
		}
		kill()
	}
}

// TestTwoRelaysKilledAtRandom: six writers with delays and rollbacks; two relays at once, each killed again and again in
// the middle of its batches, slots rotating every few milliseconds, a write transaction idle all the time. Each key's
// counter is its commit order: the first sights in Kafka must be exactly 1 … n, so nothing is lost, invented or out of
// order.
func TestTwoRelaysKilledAtRandom(t *testing.T) {
	const keys, writers, rounds = 4, 6, 50
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	url, b := database(t), newBroker(t)
	admin := connect(t, url)
	if _, err := admin.Exec(t.Context(), "CREATE TABLE counter (key text PRIMARY KEY, n bigint NOT NULL)"); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Exec(t.Context(), "INSERT INTO counter SELECT 'k' || i, 0 FROM generate_series(0, $1::int - 1) i", keys); err != nil {
		t.Fatal(err)
	}
	idle, err := connect(t, url).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := outbox.Append(t.Context(), idle, event("idle", 1)); err != nil {
		t.Fatal(err)
	}

	ctx, stop := context.WithCancel(t.Context())
	var relays, writing sync.WaitGroup
	var kills atomic.Int64
	for i := range 2 {
		producer := newProducer(t, b)
		relays.Go(func() {
			chaos(ctx, t, testConfig(url, b.url()), producer.Produce, rand.New(rand.NewPCG(seed, uint64(100+i))), &kills)
		})
	}
	for i := range writers {
		conn := connect(t, url)
		writing.Go(func() { orderWriter(t, conn, rand.New(rand.NewPCG(seed, uint64(i))), keys, rounds) })
	}
	writing.Wait()
	until(t, "all but the idle row published", func() bool { return backlog(t, url) == 0 })
	if err := idle.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	until(t, "the idle row published", func() bool { return backlog(t, url) == 0 })
	stop()
	relays.Wait()

	firsts, total := b.published()
	t.Logf("%d records, %d kills", total, kills.Load())
	if kills.Load() == 0 {
		t.Error("nobody was killed")
	}
	check := func(key string, n int64) {
		if int64(len(firsts[key])) != n || n == 0 {
			t.Errorf("%s: %d committed, %d published", key, n, len(firsts[key]))
		}
		for i, id := range firsts[key] {
			if id != fmt.Sprint(i+1) {
				t.Fatalf("%s: place %d has %s", key, i+1, id)
			}
		}
	}
	for i := range keys {
		key := fmt.Sprintf("k%d", i)
		var n int64
		if err := admin.QueryRow(t.Context(), "SELECT n FROM counter WHERE key = $1", key).Scan(&n); err != nil {
			t.Fatal(err)
		}
		check(key, n)
	}
	check("idle", 1)
}

var errRollback = errors.New("rolled back on purpose")

func orderWriter(t *testing.T, conn *pgx.Conn, random *rand.Rand, keys, rounds int) {
	for range rounds {
		err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
			for key := random.IntN(2); key < keys; key += 1 + random.IntN(keys) { // ascending: no deadlock
				name, n := fmt.Sprintf("k%d", key), int64(0)
				if err := tx.QueryRow(t.Context(), "UPDATE counter SET n = n + 1 WHERE key = $1 RETURNING n", name).Scan(&n); err != nil {
					return err
				}
				if err := outbox.Append(t.Context(), tx, event(name, n)); err != nil {
					return err
				}
				if _, err := tx.Exec(t.Context(), "SELECT pg_sleep($1::int / 1e6)", random.IntN(4000)); err != nil {
					return err
				}
			}
			if random.IntN(4) == 0 {
				return errRollback
			}
			return nil
		})
		if err != nil && !errors.Is(err, errRollback) {
			t.Errorf("writer: %v", err)
			return
		}
	}
}

// BenchmarkRelay drains a backlog of 500-byte events with the default limits, kfake writing every batch to disk.
func BenchmarkRelay(b *testing.B) {
	const rows = 20_000
	url, broker := database(b), newBroker(b)
	producer := newProducer(b, broker)
	cfg := testConfig(url, broker.url())
	cfg.BatchRows, cfg.BatchBytes, cfg.RotateRows = 2000, 8<<20, 100_000
	r := newRelay(b, cfg, producer.Produce)
	s, err := outbox.Open(b.Context(), url)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close(b.Context())
	if led, err := s.TryLead(b.Context()); err != nil || !led {
		b.Fatal(led, err)
	}
	w := connect(b, url)
	for b.Loop() {
		b.StopTimer()
		if _, err := w.Exec(b.Context(), `INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload)
			SELECT i::text, 'tenant', 't' || i % 50, 'weir.usage.v1', convert_to(repeat('x', 500), 'UTF8') FROM generate_series(1, $1::int) i`, rows); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		for n := -1; n != 0; {
			if n, err = r.step(b.Context(), s); err != nil {
				b.Fatal(err)
			}
			if err := r.rotate(b.Context(), s, n); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(rows)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}
