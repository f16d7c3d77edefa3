package audit_test

import (
	"strings"
	"testing"
)

// Goal: a counter that was held at its bound is no difference, nor is an entry whose billed amount is beyond it; a counter that
// lost such an amount is one. Method: a settle of $9,007,199.25474 with a markup, by a tenant that has spent besides.
func TestCountersAtTheirBound(t *testing.T) {
	const bound, spent = 1<<53 - 1, 9007199254740000
	huge := func(w *world) {
		ev := event("acme", "huge")
		ev.Data.ReservationID = "r9"
		at, ev := w.send(ev)
		w.book(at, ev, spent, 0, nil, line{"output_tokens", "900719925474", "0.00001"})
	}
	for _, c := range []struct {
		name string
		own  int64 // of each counter that is past the bound, with what is held
		want string
	}{
		{"at the bound", bound, ""},
		{"a hold has ended since", bound - 50_000, ""},
		{"lost", 5, "the journal has 9007199"},
		{"as the journal has it, which no counter can", bound + 1000, "the journal has 9007199"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := small(t, huge)
			for id, x := range w.tenants {
				x.DayOwn, x.MonthOwn = held(x.DayOwn, c.own), held(x.MonthOwn, c.own)
				w.tenants[id] = x
			}
			for id, x := range w.scopes {
				x.DayOwn, x.MonthOwn = held(x.DayOwn, c.own), held(x.MonthOwn, c.own)
				w.scopes[id] = x
			}
			for id, x := range w.roots {
				x.Own = held(x.Own, c.own)
				w.roots[id] = x
			}
			found := ""
			for _, d := range w.run().Differences {
				found += d.String() + "\n"
			}
			if (found == "") != (c.want == "") || !strings.Contains(found, c.want) || strings.Contains(found, "journal: ") {
				t.Errorf("want %q, found\n%s", c.want, found)
			}
		})
	}
	w := small(t, func(w *world) {
		at, ev := w.send(event("acme", "huge"))
		w.book(at, ev, 0, spent-1, nil, line{"output_tokens", "900719925474", "0.00001"})
	})
	found := ""
	for _, d := range w.run().Differences {
		found += d.String() + "\n"
	}
	if !strings.Contains(found, "expected raw 9007199254740000 or billed beyond a counter's bound, found 9007199254739999") {
		t.Errorf("found\n%s", found)
	}
}

// held is what such a counter says.
func held(n, at int64) int64 {
	if n > 1<<53-1 {
		return at
	}
	return n
}
