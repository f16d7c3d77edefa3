//go:build integration

package budgetstore

import (
	"errors"
	"strings"
	"testing"

	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/window"
)

// Goal: usage that never asked may name whatever reservation, execution or sub-scope it likes; a name that no reservation can
// bring holds up neither the other totals, nor the journal, nor a recovery, nor who reads revocations. The fields of a state are
// such names, too.
func TestNamesOfNobody(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"", "a{b}", "}", strings.Repeat("x", maxID+1), "{", "{n", "{c", "{hr1", "{xroot"} {
		w.admit(w.request(1))
		if h, err := w.store.Hold(t.Context(), w.tenant, name); !errors.Is(err, ErrNoHold) {
			t.Errorf("%.10q is the hold %+v: %v", name, h, err)
		}
		w.must(w.store.Revoke(t.Context(), w.tenant, name))
		odd := ScopeRef{Scope: window.Scope{Kind: window.Agent, ID: name}}
		totals := []ExternalTotal{{Scope: ExecutionScope, Root: name, Version: 3, Nanos: dollar}, {Scope: DayScope, Window: 20260630, Version: 3, Nanos: dollar, SubScope: odd}}
		taken, err := w.store.ApplyExternal(t.Context(), w.tenant, totals)
		if err != nil || taken != 0 {
			t.Errorf("%.10q alone: %d, %v", name, taken, err)
		}
		_, err = w.store.ApplyJournal(t.Context(), w.tenant, []JournalEntry{{Offset: 1, ReservationID: name, Root: name, Scopes: []ScopeRef{odd}}})
		if err != nil {
			t.Errorf("%.10q in the journal: %v", name, err)
		}
		ours := ExternalTotal{Scope: DayScope, Window: 20260630, Version: 3, Nanos: 2 * dollar}
		w.load(w.maker(), Base{External: append(totals, ours), Executions: []ExecutionTotal{{Root: name, Own: dollar}, {Root: "y", Own: dollar}},
			Scopes: []ScopeBase{{Scope: odd.Scope, Own: []OwnTotal{{Scope: DayScope, Window: 20260630, Nanos: dollar}}}}})
		of := Tenant{ID: w.tenant.ID, Epoch: nextEpoch}
		x, err := w.store.Execution(t.Context(), of, "y")
		w.must(err)
		b, err := w.store.Budget(t.Context(), of, w.calendar(), admit.Limits{})
		w.must(err)
		if x.Own != dollar || b.Day.External != 2*dollar {
			t.Errorf("%.10q: %+v %+v", name, x, b)
		}
		w.must(w.store.client.Del(t.Context(), key(of, "s")).Err())
		_, err = w.store.CreateTenant(t.Context(), w.tenant)
		w.must(err)
		w.must(w.store.MarkReady(t.Context(), w.tenant))
	}
}

// Goal: a total beyond what a counter can hold is held at its bound, which blocks further admission; it stops nothing else.
func TestTotalBeyondTheBound(t *testing.T) {
	w := newWorld(t)
	taken, err := w.store.ApplyExternal(t.Context(), w.tenant, []ExternalTotal{{Scope: MonthScope, Window: 202606, Version: 3, Nanos: 3 * money.MaxNano},
		{Scope: DayScope, Window: 20260630, Version: 3, Nanos: -3 * money.MaxNano}})
	w.must(err)
	w.refused(w.request(1), admit.TenantQuotaExceeded, admit.LimitMonth)
	if b := w.budget(); taken != 2 || b.Month.External != money.MaxNano || b.Day.External != -money.MaxNano {
		t.Errorf("%d, %+v", taken, b)
	}
}
