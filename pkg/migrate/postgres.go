package migrate

import (
	"context"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// lockKey is the advisory lock of a run; any number does that nothing else in the database uses.
const lockKey = 0x77656972_6d696772 // "weirmigr"

const postgresRecords = `CREATE TABLE IF NOT EXISTS schema_migrations (
	version integer PRIMARY KEY, name text NOT NULL, checksum text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())`

// Postgres brings the database of conn up to date and returns what it applied. A second run at the same time waits for
// the first. conn needs the right to create in its schema; it must be a plain session (no transaction pooling).
func Postgres(ctx context.Context, conn *pgx.Conn, files fs.FS) (done []Migration, err error) {
	all, err := Load(files)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", int64(lockKey)); err != nil {
		return nil, fmt.Errorf("migrate: lock: %w", err)
	}
	defer func() {
		// Not the caller's context: the lock must go even when that has ended. A broken connection drops it anyway.
		_, unlockErr := conn.Exec(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock($1)", int64(lockKey))
		if err == nil && unlockErr != nil {
			err = fmt.Errorf("migrate: unlock: %w", unlockErr)
		}
	}()
	todo, err := postgresPending(ctx, conn, all)
	if err != nil {
		return nil, err
	}
	for _, m := range todo {
		if err := applyPostgres(ctx, conn, m); err != nil {
			return done, err
		}
		done = append(done, m)
	}
	return done, nil
}

func postgresPending(ctx context.Context, conn *pgx.Conn, all []Migration) ([]Migration, error) {
	if _, err := conn.Exec(ctx, postgresRecords); err != nil {
		return nil, fmt.Errorf("migrate: create schema_migrations: %w", err)
	}
	rows, err := conn.Query(ctx, "SELECT version, name, checksum FROM schema_migrations ORDER BY version")
	if err != nil {
		return nil, fmt.Errorf("migrate: read schema_migrations: %w", err)
	}
	applied, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r record, err error) {
		return r, row.Scan(&r.version, &r.name, &r.checksum)
	})
	if err != nil {
		return nil, fmt.Errorf("migrate: read schema_migrations: %w", err)
	}
	return pending(all, applied)
}

// applyPostgres runs files, checks and record in one transaction. The scripts go over the simple protocol, which takes
// many statements at once and so needs no splitting.
func applyPostgres(ctx context.Context, conn *pgx.Conn, m Migration) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := conn.PgConn().Exec(ctx, m.Up).ReadAll(); err != nil {
			return fmt.Errorf("migrate: %s: %w", m, err)
		}
		results, err := conn.PgConn().Exec(ctx, m.Check).ReadAll()
		if err != nil {
			return fmt.Errorf("migrate: check of %s: %w", m, err)
		}
		for i, r := range results {
			if err := verdict(m, i+1, texts(r)); err != nil {
				return err
			}
		}
		_, err = tx.Exec(ctx, "INSERT INTO schema_migrations (version, name, checksum) VALUES ($1, $2, $3)", m.Version, m.Name, m.Checksum)
		if err != nil {
			return fmt.Errorf("migrate: record %s: %w", m, err)
		}
		return nil
	})
}

func texts(r *pgconn.Result) [][]string {
	out := make([][]string, len(r.Rows))
	for i, row := range r.Rows {
		for _, value := range row {
			out[i] = append(out[i], string(value))
		}
	}
	return out
}
