//go:build integration

package admission

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/usageevent"
)

// lifeTable is the table "What admission answers" of docs/reference/reservation-life.md, header first.
func lifeTable(t *testing.T) (rows [][]string) {
	t.Helper()
	raw, err := os.ReadFile("../../docs/reference/reservation-life.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		switch {
		case len(rows) == 0 && !strings.HasPrefix(line, "| state |"), strings.HasPrefix(line, "|--"):
			continue
		case len(cells) < 2:
			return rows
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, cells)
	}
	return rows
}

// life is one cell: a reservation in a state, and what happens to it.
type life struct {
	*desk
	// grants is where reservations are made and told what happens, ends where they were brought into their state.
	grants, ends process
	b            *books
	reader       *journalReader
	read         int
	cells        int
	id           string
	receipt      any // nil without one
	last         func() (int, object)
}

func (l *life) ask(lease int) object {
	l.t.Helper()
	status, out := l.grants.call(l.world, "acme", "POST", "/v1/reservations", object{"reservation_id": l.id, "provider": "openai", "model": "flat", "lease_seconds": lease,
		"estimate": object{"max_output_tokens": 30}})
	l.want("reserve "+l.id, status, out, 201)
	return out
}

// send makes a call about the reservation, and keeps it so that it can be repeated.
func (l *life) send(at process, what string, body object) (int, object) {
	l.t.Helper()
	if l.receipt != nil {
		body["receipt"] = l.receipt
	}
	send := func(at process) (int, object) {
		return at.call(l.world, "acme", "POST", "/v1/reservations/"+l.id+"/"+what, body)
	}
	l.last = func() (int, object) { return send(l.grants) }
	return send(at)
}

func (l *life) reap() {
	l.t.Helper()
	l.must(l.ends.svc.reapTenant(context.Background(), budgetstore.Tenant{ID: "acme", Epoch: 4711}))
}

func (l *life) later(d time.Duration) {
	l.clock.advance(d)
	l.grants.compareEpoch()
	l.ends.compareEpoch()
}

func (l *life) fromKafka() {
	l.t.Helper()
	l.b.fromKafka("k-"+l.id, l.id, "", 5)
	l.must(l.b.read(l.reader, l.b.records(l.read, len(l.b.entries))))
	l.read = len(l.b.entries)
}

// into brings a new reservation into the state of a row.
func (l *life) into(state string) {
	l.t.Helper()
	var status int
	var out object
	l.receipt, l.last = nil, nil
	settle := func(tokens int) {
		status, out = l.send(l.ends, "settle", object{"meters": object{"output_tokens": tokens}})
	}
	switch state {
	case "open":
		l.ask(60)
		return
	case "expiring":
		l.ask(1)
		l.later(2 * time.Second)
		return
	case "settled":
		l.ask(60)
		settle(20)
	case "estimated":
		l.ask(60)
		status, out = l.send(l.ends, "settle", object{"status": "PARTIAL"})
	case "released":
		l.ask(60)
		status, out = l.send(l.ends, "release", object{})
	case "expired", "late":
		l.ask(1)
		l.later(2 * time.Second)
		l.reap()
		if state == "expired" {
			return
		}
		settle(21)
	case "external":
		l.ask(60)
		l.fromKafka()
		return
	case "forgotten, with a receipt", "forgotten, no receipt":
		receipt := l.ask(60)["receipt"]
		status, out = l.send(l.ends, "release", object{})
		_, err := l.pg.Exec(context.Background(), "DELETE FROM reservations WHERE reservation_id = $1", l.id)
		l.must(err)
		if strings.HasSuffix(state, "with a receipt") {
			l.receipt = receipt
		}
	case "open, row of an earlier one":
		l.ask(60)
		status, out = l.send(l.ends, "release", object{})
		l.later(121 * time.Second)
		l.ask(60)
	default:
		l.t.Fatalf("the document has a state %q that this test cannot bring about", state)
	}
	l.want(state, status, out, 200)
}

// happens is a column: what it answers, in the document's words.
func (l *life) happens(message string) string {
	l.t.Helper()
	before, events := l.state(), len(l.events())
	var status int
	var out object
	switch message {
	case "the same":
		status, out = l.last()
	case "settle":
		status, out = l.send(l.grants, "settle", object{"meters": object{"output_tokens": 7}})
	case "settle without usage":
		status, out = l.send(l.grants, "settle", object{"status": "PARTIAL", "error_code": "cut"})
	case "release", "extend":
		status, out = l.send(l.grants, message, object{})
	case "usage from Kafka":
		l.fromKafka()
	case "lease ends":
		l.later(61 * time.Second)
		l.reap()
	default:
		l.t.Fatalf("the document has a message %q that this test cannot send", message)
	}
	said := strings.TrimSpace(fmt.Sprintf("%d %v", status, out["state"]))
	if out["state"] == nil {
		said = fmt.Sprint(status)
	}
	if status == 0 {
		if said = l.state(); said == before {
			said = "-"
		}
	}
	for _, outcome := range l.events()[events:] {
		said += " (" + map[string]string{usageevent.OutcomeSettled: "S", usageevent.OutcomeEstimated: "E", usageevent.OutcomeUnsettled: "U",
			usageevent.OutcomeLate: "L"}[outcome] + ")"
	}
	return said
}

// events are the outcomes that were committed to the outbox about the reservation.
func (l *life) events() (outcomes []string) {
	l.t.Helper()
	rows, err := l.pg.Query(context.Background(), "SELECT payload FROM outbox WHERE aggregateid = 'acme' ORDER BY seq")
	l.must(err)
	defer rows.Close()
	for rows.Next() {
		var payload []byte
		l.must(rows.Scan(&payload))
		ev, err := usageevent.Decode(payload, nil)
		l.must(err)
		if ev.Data.ReservationID == l.id {
			outcomes = append(outcomes, ev.Data.Reservation.Outcome)
		}
	}
	l.must(rows.Err())
	return outcomes
}

func (l *life) state() string {
	_, out := l.call("acme", "GET", "/v1/reservations/"+l.id, nil)
	return fmt.Sprint(out["state"])
}

// TestReservationLifeAnswers walks every cell of "What admission answers": where one replica does everything, and where another
// one has brought about the state, of which the one that granted the hold, and remembers it, knows nothing.
func TestReservationLifeAnswers(t *testing.T) {
	d := newDesk(t, one(contract()))
	l := &life{desk: d, grants: d.process, ends: d.process, b: newBooks(d, "acme", 0)}
	l.reader = l.b.newReader(0)
	rows := lifeTable(t)
	if len(rows) != 14 || len(rows[0]) != 8 {
		t.Fatalf("the table: %v", rows)
	}
	for _, row := range rows[1:] {
		if !strings.HasPrefix(row[0], recoveringState) { // needs a real one: TestReservationLifeWhileRecovering
			l.walk(t, rows[0], row)
		}
	}
	l.ends = d.another()
	t.Cleanup(l.ends.stop)
	l.reader.s = l.ends.svc
	for _, row := range rows[1:] {
		// A row goes when nobody remembers its hold any more: here it would go at once.
		if !strings.HasPrefix(row[0], recoveringState) && !strings.HasPrefix(row[0], "forgotten") {
			l.walk(t, rows[0], row)
		}
	}
}

// walk goes through the cells of one row.
func (l *life) walk(t *testing.T, header, row []string) {
	t.Helper()
	for i, want := range row[1:] {
		l.cells++
		l.id = fmt.Sprint("r", l.cells)
		l.later(2 * time.Second)
		l.into(row[0])
		message := header[i+1]
		if message == "the same" && (want == "-" || l.last == nil) {
			if want != "-" {
				t.Errorf("%s: nothing to repeat", row[0])
			}
			continue
		}
		if got := l.happens(message); got != want {
			t.Errorf("%s + %s: admission says %q, the document %q", row[0], message, got, want)
		}
	}
}
