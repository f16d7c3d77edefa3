package referencetest

import (
	"crypto/sha256"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/domain/ledger"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/pricing"
	"github.com/weir-project/weir/pkg/domain/usage"
)

// root is the repository, seen from this package.
const root = "../../.."

// table is the Markdown table that begins with a header cell, its rows cut into cells; header first.
func table(t *testing.T, file, first string) [][]string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	var rows [][]string
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimSpace(line)
		begins := strings.HasPrefix(line, "| "+first+" |")
		if rows == nil && !begins {
			continue
		}
		if !strings.HasPrefix(line, "|") {
			break
		}
		if strings.HasPrefix(line, "|--") {
			continue
		}
		var cells []string
		for _, c := range strings.Split(strings.Trim(line, "|"), "|") {
			cells = append(cells, strings.TrimSpace(c))
		}
		rows = append(rows, cells)
	}
	if len(rows) < 2 {
		t.Fatalf("%s: no table %q", file, first)
	}
	return rows
}

// messages are the letters of the document.
func messages() map[string]ledger.Message {
	return map[string]ledger.Message{"S": ledger.Settle, "E": ledger.Estimate, "U": ledger.Expiry, "L": ledger.Late, "K": ledger.External}
}

var reservedAt = time.Date(2026, 3, 31, 23, 59, 0, 0, time.UTC)

const (
	actualNanos money.Nano = 2_600_000
	heldNanos   money.Nano = 10_000_000
)

// candidate is one message about reservation r1, reserved at an instant; the event's own time is after midnight.
func candidate(t *testing.T, letter, id string, at time.Time) ledger.Candidate {
	t.Helper()
	actual, held := actualNanos.USD(), heldNanos.USD()
	quantity, rate := money.NewDecimal(1), decimal(t, "0.0026")
	f := ledger.Facts{Message: messages()[letter], Tenant: "acme", Source: "app", EventID: id, ContentHash: sha256.Sum256([]byte(id)), Location: time.UTC,
		EventTime: at.Add(2 * time.Minute), RecordedAt: at.Add(3 * time.Minute), Provider: "openai", Model: "m", ReservationID: "r1",
		Costing: &pricing.Costing{Total: actual, Lines: []pricing.Line{{Meter: usage.Output, Quantity: quantity, Rate: rate, CostUSD: actual}}}}
	switch letter {
	case "S":
		f.Hold = &ledger.Hold{ReservedAt: at, OwnMode: ledger.Direct, Own: actualNanos, Held: heldNanos}
	case "E", "U":
		f.Costing, f.Hold = nil, &ledger.Hold{ReservedAt: at, OwnMode: ledger.Direct, Own: heldNanos, Held: heldNanos, EstimateUSD: &held}
	case "L":
		f.Hold = &ledger.Hold{ReservedAt: at, Held: heldNanos}
	}
	c, err := ledger.NewCandidate(f)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func decimal(t *testing.T, s string) money.Decimal {
	t.Helper()
	d, err := money.ParseDecimal(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// before brings a state about: "K, S", or "S of an earlier one". The names say which letter booked an entry.
func before(t *testing.T, row string) (*ledger.State, map[string]string) {
	t.Helper()
	s, names, at := ledger.NewState(), map[string]string{}, reservedAt
	row, other, _ := strings.Cut(row, " of an ")
	if other != "" {
		at = reservedAt.Add(-91 * 24 * time.Hour)
	}
	if short, ok := strings.CutSuffix(row, " of a later one"); ok {
		row, at = short, reservedAt.Add(91*24*time.Hour)
	}
	if row == "nothing" {
		return s, names
	}
	for _, letter := range strings.Split(row, ", ") {
		c := candidate(t, letter, "before-"+letter, at)
		d := s.Decide(c)
		if d.Verdict != ledger.Booked {
			t.Fatalf("%s: %+v", row, d)
		}
		for _, e := range d.Entries {
			s.Apply(e)
		}
		names[c.Entry.ID] = letter
	}
	return s, names
}

// said is a decision in the document's words.
func said(d ledger.Decision, names map[string]string) string {
	if d.Verdict == ledger.AlreadyClosed {
		return "dead letter"
	}
	if d.Verdict != ledger.Booked {
		return string(d.Verdict)
	}
	last := d.Entries[len(d.Entries)-1]
	own := "external"
	if last.IsOwn() {
		own = "own"
	}
	words := []string{own}
	for _, e := range d.Entries[:len(d.Entries)-1] {
		switch {
		case e.Kind != ledger.Reversal || e.IsOwn():
			words = append(words, "unexpected")
		case e.ReversesID == last.ID:
			words = append(words, "-itself")
		default:
			words = append([]string{"-" + names[e.ReversesID]}, words...)
		}
	}
	return strings.Join(words, ", ")
}

// TestReservationLifeBooks walks every cell of "What the books say"; a message again is dropped in every state, and with
// other content is a conflict.
func TestReservationLifeBooks(t *testing.T) {
	rows := table(t, "docs/reference/reservation-life.md", "booked so far")
	if len(rows[0]) != len(messages())+1 {
		t.Fatalf("columns: %v", rows[0])
	}
	for _, row := range rows[1:] {
		for i, want := range row[1:] {
			letter := rows[0][i+1][:1]
			s, names := before(t, row[0])
			c := candidate(t, letter, "now", reservedAt)
			d := s.Decide(c)
			if got := said(d, names); got != want {
				t.Errorf("%s + %s: the code says %q, the document %q", row[0], letter, got, want)
				continue
			}
			if d.Verdict != ledger.Booked {
				continue
			}
			for _, e := range d.Entries {
				s.Apply(e)
			}
			if again := s.Decide(c); again.Verdict != ledger.Duplicate {
				t.Errorf("%s + %s, again: %s", row[0], letter, again.Verdict)
			}
			c.Entry.ContentHash[0]++
			if other := s.Decide(c); other.Verdict != ledger.Conflict {
				t.Errorf("%s + %s, other content: %s", row[0], letter, other.Verdict)
			}
		}
	}
}
