//go:build integration

package pgstore_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weir-project/weir/pkg/embedded/part"
	"github.com/weir-project/weir/pkg/outbox"
	"github.com/weir-project/weir/pkg/pgstore"
	"github.com/weir-project/weir/pkg/testkit"
)

// writers is how many callers write at once: 25 on each of two cores.
const writers = 25

// BenchmarkEnd is a settle's row and event, as 50 callers write them at once, and as one does.
func BenchmarkEnd(b *testing.B) {
	for _, bb := range []struct {
		name    string
		writers int
	}{{"50", writers}, {"one", 0}} {
		b.Run(bb.name, func(b *testing.B) {
			server := testkit.PostgresServer(b, part.Config{})
			f := openAt(b, server.Address)
			_, err := f.InitEpoch(b.Context(), 7, 1)
			f.must(err)
			// Each as long as those of a plain settle.
			payload, call, answer := text(700), text(250), text(400)
			measure(b, server, bb.writers, func(n int64) error {
				r := row(id(n), pgstore.Settled)
				r.Call, r.Answer, r.Fingerprint, r.EventID = call, answer, payload[:32], "settle:"+r.ReservationID+":1796083199123456000"
				e := &outbox.Event{ID: r.EventID, AggregateType: "tenant", AggregateID: "acme", Type: "weir.usage.v1", Payload: payload,
					Headers: map[string]string{"content-type": "application/cloudevents+json", "weir-signature": "v1=" + hex.EncodeToString(payload[:32])}}
				_, done, err := f.End(context.Background(), r, e)
				if err == nil && !done {
					err = fmt.Errorf("%s had ended", r.ReservationID)
				}
				return err
			})
		})
	}
}

// BenchmarkBareCommit is what End is measured against: one row as large as the event, committed alone.
func BenchmarkBareCommit(b *testing.B) {
	server := testkit.PostgresServer(b, part.Config{})
	config, err := pgxpool.ParseConfig(server.Address)
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
	payload := text(700)
	measure(b, server, writers, func(n int64) error {
		_, err := pool.Exec(context.Background(), "INSERT INTO bare VALUES ($1, $2)", id(n), payload)
		return err
	})
}

// id is spread out as the ids of reservations are.
func id(n int64) string {
	sum := sha256.Sum256([]byte(strconv.FormatInt(n, 10)))
	return hex.EncodeToString(sum[:16])
}

// text is n bytes that do not compress into nothing.
func text(n int) []byte {
	var out []byte
	for sum := sha256.Sum256(nil); len(out) < n; sum = sha256.Sum256(sum[:]) {
		out = append(out, hex.EncodeToString(sum[:])...)
	}
	return out[:n]
}

// measure runs do b.N times with parallel callers for each core (0: one in all), and reports beside the time what the
// server's processes and this one computed for each, how much log was written, and how many shared a commit.
func measure(b *testing.B, server *part.Part, parallel int, do func(n int64) error) {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, server.Address)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close(ctx)
	counters := func() (log, commits float64) {
		err := conn.QueryRow(ctx, `SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn, pg_current_xact_id()::text::float8`).Scan(&log, &commits)
		if err != nil {
			b.Fatal(err)
		}
		return log, commits
	}
	var n atomic.Int64
	for range 200 { // connections, plans and the first pages
		if err := do(n.Add(1)); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := conn.Exec(ctx, "CHECKPOINT"); err != nil {
		b.Fatal(err)
	}
	log, commits := counters()
	theirs, ours := serverTime(b, server.PID), ownTime(b)
	b.ReportAllocs()
	b.ResetTimer()
	if parallel == 0 {
		for b.Loop() {
			if err := do(n.Add(1)); err != nil {
				b.Fatal(err)
			}
		}
	} else {
		b.SetParallelism(parallel)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if err := do(n.Add(1)); err != nil {
					b.Error(err)
				}
			}
		})
	}
	b.StopTimer()
	each := 1 / float64(b.N)
	b.ReportMetric(float64((serverTime(b, server.PID)-theirs).Nanoseconds())/1e3*each, "server-µs/op")
	b.ReportMetric(float64((ownTime(b)-ours).Nanoseconds())/1e3*each, "client-µs/op")
	logAfter, commitsAfter := counters()
	b.ReportMetric((logAfter-log)*each, "log-B/op")
	b.ReportMetric(float64(b.N)/(commitsAfter-commits), "op/commit")
}

// ownTime is the processor time of this process.
func ownTime(b *testing.B) time.Duration {
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		b.Fatal(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// serverTime is the processor time of a server's process and its children.
func serverTime(b *testing.B, pid int) time.Duration {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		b.Fatal(err)
	}
	var sum time.Duration
	for _, file := range stats {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(text), ") ") // the name may hold spaces
		if f := strings.Fields(rest); len(f) < 2 || f[1] != strconv.Itoa(pid) && filepath.Dir(file) != "/proc/"+strconv.Itoa(pid) {
			continue
		}
		text, err = os.ReadFile(filepath.Join(filepath.Dir(file), "schedstat")) // its first figure is nanoseconds
		if err != nil {
			b.Fatal(err)
		}
		ns, err := strconv.ParseInt(strings.Fields(string(text))[0], 10, 64)
		if err != nil {
			b.Fatal(err)
		}
		sum += time.Duration(ns)
	}
	return sum
}
