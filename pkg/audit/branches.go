package audit

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weir-project/weir/pkg/gen/weirv1"
	"github.com/weir-project/weir/pkg/usageevent"
)

// Branches are child agents with a lower limit of their own, with their descendants. They stand among an entry's sub-scopes,
// but no contract knows them: the reservation's event says in which it counted, or the execution token of an event.
const (
	branchColumn = "EXECUTION_BRANCH"
	// branchLate is from when on an entry comes too late for its branches' totals, branchKept how long after its latest event
	// a branch's total must be in the window topic.
	branchLate = 9 * 24 * time.Hour
	branchKept = 17 * 24 * time.Hour
)

func isBranch(k *weirv1.ScopeKey) bool {
	return k.GetKind() == weirv1.ScopeKind_SCOPE_KIND_EXECUTION_BRANCH
}

// branchesOf are the ids of an entry's branches, in order.
func branchesOf(m *weirv1.LedgerEntry) []string {
	var out []string
	for _, k := range m.GetScopes() {
		if isBranch(k) {
			out = append(out, k.GetId())
		}
	}
	slices.Sort(out)
	return out
}

// tooLate reports whether an entry counts in no branch's total.
func tooLate(e entry) bool {
	return e.GetRecordedAt().AsTime().Sub(e.GetEventTime().AsTime()) > branchLate
}

// noteEnded marks the totals of branches that may have left the window topic.
func noteEnded(all map[WindowKey]*total, now time.Time) {
	for key, t := range all {
		t.mayBeGone = key.Scope == branchColumn && now.Sub(t.latest) > branchKept
	}
}

// checkBranches holds the branches of an entry against its event: those of the reservation, or none that the token of any
// other does not name. Whether that token was good is not looked at.
func checkBranches(e entry, ev usageevent.Event, r *Report) {
	got, what := branchesOf(e.LedgerEntry), e.GetId()+" branches"
	if ev.Data.Reservation != nil && e.GetReservedAt() != nil {
		same(r, "journal", what, strings.Join(slices.Sorted(slices.Values(ev.Data.Reservation.Branches)), ", "), strings.Join(got, ", "))
		return
	}
	named := tokenBranches(ev.Data.ExecutionToken)
	for _, id := range got {
		if !slices.Contains(named, id) {
			r.differ("journal", what, fmt.Sprintf("of %q, which its token names", named), id)
		}
	}
}

// tokenBranches are the branches that a token names, whoever signed it.
func tokenBranches(token string) []string {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return nil
	}
	var claims struct {
		Branches []struct {
			ID string `json:"id"`
		} `json:"branches"`
	}
	if json.Unmarshal(raw, &claims) != nil {
		return nil
	}
	var out []string
	for _, b := range claims.Branches {
		out = append(out, b.ID)
	}
	return out
}
