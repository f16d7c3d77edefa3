package httpbench

import (
	"context"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"
)

// poolSize is that of admission's pool.
const poolSize = 24

// openPool makes the table of bare commits, if it is not there.
func openPool(ctx context.Context, url string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("postgres address: %w", err)
	}
	config.MaxConns = poolSize
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	if _, err := pool.Exec(ctx, "CREATE TABLE IF NOT EXISTS bench_commits (id text PRIMARY KEY, payload bytea NOT NULL)"); err != nil {
		pool.Close()
		return nil, fmt.Errorf("postgres: %w", err)
	}
	return pool, nil
}

// insertRow commits a row that is as large as the event of a settle.
func insertRow(ctx context.Context, pool *pgxpool.Pool, id string) error {
	if _, err := pool.Exec(ctx, "INSERT INTO bench_commits (id, payload) VALUES ($1, $2)", id, make([]byte, 700)); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// writers is single rows a second, each committed alone, by as many writers in this process as there are clients: without
// HTTP.
func (w *world) writers(ctx context.Context) (float64, error) {
	var group errgroup.Group
	began := w.cfg.Now()
	for client := range clients {
		group.Go(func() error {
			for n := range perClient {
				if err := insertRow(ctx, w.pool, strconv.Itoa(w.slots)+"-"+strconv.Itoa(client)+"-"+strconv.Itoa(n)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err := group.Wait()
	took := w.cfg.Now().Sub(began)
	w.say("writers", loaded{rate: settles / took.Seconds()})
	return settles / took.Seconds(), err
}
