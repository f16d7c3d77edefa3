package migrate

import (
	"context"
	"fmt"
	"io/fs"
	"strconv"
)

// Conn is a database that runs one statement at a time.
type Conn interface {
	// Exec runs a statement without a result.
	Exec(ctx context.Context, statement string) error
	// Query runs a SELECT and returns its rows, every value as text (true as "true" or "1").
	Query(ctx context.Context, statement string) ([][]string, error)
}

// ClickHouseRecords is the table of applied migrations for Statements on ClickHouse. Two rows for one version are
// possible after a crash between insert and answer, hence ReplacingMergeTree and LIMIT 1 BY.
const ClickHouseRecords = `CREATE TABLE IF NOT EXISTS schema_migrations (version UInt32, name String, checksum String,
	applied_at DateTime DEFAULT now()) ENGINE = ReplacingMergeTree ORDER BY version`

const selectRecords = "SELECT toString(version), name, checksum FROM schema_migrations ORDER BY version LIMIT 1 BY version"

// Statements brings a database without transactional DDL (ClickHouse) up to date and returns what it applied.
// createRecords makes the table schema_migrations where it is missing (ClickHouseRecords). Each file is split into its
// statements; a migration that failed half-way is run again from its start. There is no lock: the caller sees to it
// that one run happens at a time (`weir` does so per instance), and repeatable statements make two harmless.
func Statements(ctx context.Context, db Conn, createRecords string, files fs.FS) (done []Migration, err error) {
	all, err := Load(files)
	if err != nil {
		return nil, err
	}
	if err := db.Exec(ctx, createRecords); err != nil {
		return nil, fmt.Errorf("migrate: create schema_migrations: %w", err)
	}
	applied, err := readRecords(ctx, db)
	if err != nil {
		return nil, err
	}
	todo, err := pending(all, applied)
	if err != nil {
		return nil, err
	}
	for _, m := range todo {
		if err := applyStatements(ctx, db, m); err != nil {
			return done, err
		}
		done = append(done, m)
	}
	return done, nil
}

func readRecords(ctx context.Context, db Conn) ([]record, error) {
	rows, err := db.Query(ctx, selectRecords)
	if err != nil {
		return nil, fmt.Errorf("migrate: read schema_migrations: %w", err)
	}
	var out []record
	for _, row := range rows {
		if len(row) != 3 {
			return nil, fmt.Errorf("migrate: read schema_migrations: %d columns", len(row))
		}
		version, err := strconv.Atoi(row[0])
		if err != nil {
			return nil, fmt.Errorf("migrate: read schema_migrations: %w", err)
		}
		out = append(out, record{version, row[1], row[2]})
	}
	return out, nil
}

func applyStatements(ctx context.Context, db Conn, m Migration) error {
	for i, statement := range Split(m.Up) {
		if err := db.Exec(ctx, statement); err != nil {
			return fmt.Errorf("migrate: statement %d of %s: %w", i+1, m, err)
		}
	}
	for i, statement := range Split(m.Check) {
		rows, err := db.Query(ctx, statement)
		if err != nil {
			return fmt.Errorf("migrate: check %d of %s: %w", i+1, m, err)
		}
		if err := verdict(m, i+1, rows); err != nil {
			return err
		}
	}
	// Name and checksum consist of [a-z0-9_] by construction, so quoting is safe.
	insert := fmt.Sprintf("INSERT INTO schema_migrations (version, name, checksum) VALUES (%d, '%s', '%s')", m.Version, m.Name, m.Checksum)
	if err := db.Exec(ctx, insert); err != nil {
		return fmt.Errorf("migrate: record %s: %w", m, err)
	}
	return nil
}
