//go:build integration

package pgstore_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weir-project/weir/pkg/outbox"
	"github.com/weir-project/weir/pkg/pgstore"
	"github.com/weir-project/weir/pkg/testkit"
)

// writers is how many callers write at once: 25 on each of two cores.
const writers = 25

// BenchmarkEnd is a settle's row and event, as 50 callers write them at once.
func BenchmarkEnd(b *testing.B) {
	f := open(b)
	var n atomic.Int64
	payload, call := make([]byte, 700), make([]byte, 250)
	b.ReportAllocs()
	b.ResetTimer()
	b.SetParallelism(writers)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			r := row(fmt.Sprint("r", n.Add(1)), pgstore.Settled)
			r.Call, r.Answer = call, call
			e := &outbox.Event{ID: r.EventID, AggregateType: "tenant", AggregateID: "acme", Type: "weir.usage.v1", Payload: payload,
				Headers: map[string]string{"content-type": "application/cloudevents+json", "weir-signature": "v1=0123456789abcdef"}}
			if _, done, err := f.End(context.Background(), r, e); !done || err != nil {
				b.Errorf("%v, %v", done, err)
			}
		}
	})
}

// BenchmarkBareCommit is what End is measured against: one row of the same size, committed alone.
func BenchmarkBareCommit(b *testing.B) {
	address := testkit.Postgres(b)
	config, err := pgxpool.ParseConfig(address)
	if err != nil {
		b.Fatal(err)
	}
	config.MaxConns = 24
	pool, err := pgxpool.NewWithConfig(b.Context(), config)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	if _, err := pool.Exec(b.Context(), "CREATE TABLE bare (id text PRIMARY KEY, payload bytea NOT NULL)"); err != nil {
		b.Fatal(err)
	}
	var n atomic.Int64
	payload := make([]byte, 700)
	b.ReportAllocs()
	b.ResetTimer()
	b.SetParallelism(writers)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := pool.Exec(context.Background(), "INSERT INTO bare VALUES ($1, $2)", fmt.Sprint(n.Add(1)), payload); err != nil {
				b.Error(err)
			}
		}
	})
}
