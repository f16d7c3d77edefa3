//go:build integration

package outbox_test

import (
	"net/url"
	"path"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/weir-project/weir/pkg/outbox"
)

// TestLeastRights: a writer and a relay work with exactly the rights that are documented, and can do no more.
func TestLeastRights(t *testing.T) {
	address := database(t)
	admin := connect(t, address)
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	as := func(role string, grants func(role string) []string) string {
		role += path.Base(u.Path) // roles belong to the whole cluster, so each database gets its own
		exec(t, admin, "CREATE ROLE "+role+" LOGIN PASSWORD 'p'")
		for _, g := range grants(role) {
			exec(t, admin, g)
		}
		as := *u
		as.User = url.UserPassword(role, "p")
		return as.String()
	}
	w, relay := connect(t, as("writer_", outbox.WriterGrants)), as("relay_", outbox.RelayGrants)

	write(t, w, event("a", "1"))
	s := lead(t, relay)
	if got := drain(t, s, wide()); !slices.Equal(got, []string{"1"}) {
		t.Fatal(got)
	}
	rotate(t, s)
	if r := rotate(t, s); r.Emptied != 1 {
		t.Fatalf("%+v", r)
	}
	write(t, w, event("a", "2"))
	b := next(t, s, wide())
	advance(t, s, b, outbox.Parked{Seq: b.Rows[0].Seq, Reason: "too_large"})
	if _, err := s.Measure(t.Context()); err != nil {
		t.Fatal(err)
	}
	forbid := func(conn *pgx.Conn, sql string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), sql); err == nil {
			t.Errorf("allowed: %s", sql)
		}
	}
	forbid(w, "SELECT * FROM outbox")
	forbid(w, "UPDATE outbox_slot SET current = 1")
	forbid(w, "INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, xid) VALUES ('x', 't', 'a', 't', '', '3')")
	r := connect(t, relay)
	forbid(r, "DELETE FROM outbox")
	forbid(r, "INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) VALUES ('x', 't', 'a', 't', '')")
	forbid(r, "SELECT outbox_adopt()")
}
