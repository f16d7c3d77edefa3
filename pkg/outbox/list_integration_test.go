//go:build integration

package outbox_test

import (
	"net/url"
	"path"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/weir-project/weir/pkg/outbox"
)

// Goal: events of a list are in the table as Append's are, whatever is in them, and a writer with the least rights may
// append so; a place without an event leaves nothing.
func TestListIsAppend(t *testing.T) {
	address := database(t)
	admin := connect(t, address)
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	role := "lists_" + path.Base(u.Path)
	exec(t, admin, "CREATE ROLE "+role+" LOGIN PASSWORD 'p'")
	for _, grant := range outbox.WriterGrants(role) {
		exec(t, admin, grant)
	}
	u.User = url.UserPassword(role, "p")
	w := connect(t, u.String())
	if known, err := outbox.KnowRows(t.Context(), w, outbox.EventType); !known || err != nil {
		t.Fatal(known, err)
	}
	partition := int32(3)
	events := []outbox.Event{
		{ID: "1", AggregateType: "tenant", AggregateID: "acme", Type: "t"},
		{ID: "2 é", AggregateType: "a", AggregateID: "b", Type: "c", Topic: "other.v1", Partition: &partition, Payload: []byte("\x00\xff{}"),
			Headers: map[string]string{"content-type": "application/json", `q"\<é>`: "line\n\"x\"", "bad": "\xff", "weir-signature": "\xff"}},
		{ID: "3", AggregateType: "tenant", AggregateID: "acme", Type: "t", Headers: map[string]string{"content-type": "application/json", "weir-signature": "v1=é"}},
	}
	var l outbox.List
	for _, e := range []*outbox.Event{&events[0], nil, &events[1], &events[2]} {
		if err := l.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	exec(t, w, outbox.InsertFrom("unnest($1::"+outbox.EventType+"[]) AS g("+outbox.EventColumns+")"), l.Rows())
	write(t, w, events...)
	rows, err := admin.Query(t.Context(), `SELECT id, aggregatetype, aggregateid, type, payload::text,
		coalesce(headers::text, 'none'), coalesce(content_type, 'none'), coalesce(signature, 'none'), coalesce(topic, 'none'), coalesce(partition, -1), slot FROM outbox ORDER BY seq`)
	if err != nil {
		t.Fatal(err)
	}
	type stored struct {
		ID, AggregateType, AggregateID, Type, Payload, Headers, ContentType, Signature, Topic string
		Partition, Slot                                                                       int
	}
	got, err := pgx.CollectRows(rows, pgx.RowToStructByPos[stored])
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 6 || got[0] != got[3] || got[1] != got[4] || got[2] != got[5] {
		t.Errorf("%+v", got)
	}
	if e := got[2]; e.Headers != "none" || e.ContentType != "application/json" || e.Signature != "v1=é" {
		t.Errorf("%+v", e)
	}
	if known, err := outbox.KnowRows(t.Context(), w, outbox.EventType, "no_such_type"); known || err != nil {
		t.Errorf("a type that is not there: %v, %v", known, err)
	}
}
