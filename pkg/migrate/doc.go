// Package migrate applies numbered SQL files once each, in order, and proves after each that it did what it should.
//
// It owns the file rules (NNNN_name.up.sql with NNNN_name.check.sql), the record of what was applied
// (schema_migrations, with a checksum over both files) and the runs: Postgres (one transaction per migration, under an
// advisory lock) and Statements (statement by statement, for databases without transactional DDL). It does not own the
// SQL, nor when a migration may run: `weir init` and `weir up` decide that; no service migrates by itself.
//
// Invariants:
//   - Versions count up from 1 without a gap; an applied migration whose files changed is refused, as is a database
//     that has more migrations than the files (an older binary must not touch it).
//   - On Postgres a migration whose check fails leaves nothing behind.
//   - Elsewhere a migration is recorded only after its check, and may therefore be run again from its start: each of
//     its statements must be repeatable (CREATE … IF NOT EXISTS).
//
// A check file holds SELECTs. A statement passes if it returns no row, or only rows whose first column is true. So it may
// either list what is wrong or state what must hold.
package migrate
