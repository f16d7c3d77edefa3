//go:build integration

package outbox_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/weir-project/weir/pkg/outbox"
)

// documented is the SQL block of docs/outbox.md that begins with that comment.
func documented(t *testing.T, comment string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/outbox.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), "```sql\n-- "+comment)
	_, rest, _ = strings.Cut(rest, "\n")
	statement, _, closed := strings.Cut(rest, ";\n```")
	if !ok || !closed {
		t.Fatalf("docs/outbox.md has no block of %s", comment)
	}
	return statement
}

// Goal: the documented statements work with what drivers say about their parameters: pgx, which asks the server, or tells it
// the types of Go; lib/pq, which sends texts and no types; psql's PREPARE with types; JDBC, which calls every text varchar.
func TestDocumentedStatements(t *testing.T) {
	url := database(t)
	w, s := connect(t, url), lead(t, url)
	ctx, dollars := t.Context(), documented(t, "pgx")
	numbers := 0
	jdbc := regexp.MustCompile(`\?`).ReplaceAllStringFunc(documented(t, "JDBC"), func(string) string { // as the driver does
		numbers++
		return fmt.Sprintf("$%d", numbers)
	})
	payload, headers := []byte("\x00{}\xff"), `{"content-type": "application/json"}`
	texts := func(id string) [][]byte {
		return [][]byte{[]byte(id), []byte("tenant"), []byte("acme"), []byte("t"), []byte(`\x007b7dff`), []byte(headers), nil, []byte("3")}
	}
	var want []string
	wrote := func(id string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", id, err)
		}
		want = append(want, id)
	}

	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		id := "pgx " + mode.String()
		_, err := w.Exec(ctx, dollars, mode, id, "tenant", "acme", "t", payload, headers, nil, int32(3))
		wrote(id, err)
	}
	_, err := w.Exec(ctx, dollars, "pgx map", "tenant", "acme", "t", payload, map[string]string{"content-type": "application/json"}, nil, 3)
	wrote("pgx map", err)

	_, err = w.PgConn().ExecParams(ctx, dollars, texts("lib/pq"), nil, nil, nil).Close()
	wrote("lib/pq", err)

	_, err = w.PgConn().Exec(ctx, "PREPARE append (text, text, text, text, bytea, jsonb, text, integer) AS "+dollars+
		`; EXECUTE append('psql', 'tenant', 'acme', 't', '\x007b7dff', '`+headers+`', NULL, 3); PREPARE untyped AS `+dollars+
		`; EXECUTE untyped('psql, no types', 'tenant', 'acme', 't', '\x007b7dff', '`+headers+`', NULL, 3)`).ReadAll()
	wrote("psql", err)
	want = append(want, "psql, no types")

	const varchar, bytea, integer = pgtype.VarcharOID, pgtype.ByteaOID, pgtype.Int4OID
	_, err = w.PgConn().ExecParams(ctx, jdbc, texts("jdbc"), []uint32{varchar, varchar, varchar, varchar, bytea, varchar, varchar, integer}, nil, nil).Close()
	wrote("jdbc", err)
	if _, err = w.PgConn().ExecParams(ctx, regexp.MustCompile(`::[a-z]+`).ReplaceAllString(jdbc, ""), texts("none"), []uint32{varchar, varchar, varchar, varchar, bytea, varchar, varchar, integer}, nil, nil).Close(); err == nil {
		t.Error("the casts are not needed")
	}
	_, err = w.PgConn().ExecParams(ctx, jdbc, texts("jdbc unspecified"), []uint32{0, 0, 0, 0, bytea, 0, 0, integer}, nil, nil).Close() // stringtype=unspecified
	wrote("jdbc unspecified", err)

	b := next(t, s, outbox.Limits{Rows: 1000, Bytes: 10 << 20})
	if got := idsOf(b); !slices.Equal(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	for _, row := range b.Rows {
		if string(row.Payload) != string(payload) || row.Headers["content-type"] != "application/json" || row.Topic != "" || row.Partition == nil || *row.Partition != 3 {
			t.Errorf("%s: %+v", row.ID, row)
		}
	}
}
