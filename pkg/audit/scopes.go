package audit

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weir-project/weir/pkg/gen/weirv1"
	"github.com/weir-project/weir/pkg/usageevent"
)

// scopeSlack is how old a contract a replica of admission may still have reserved by.
const scopeSlack = time.Minute

// Sub-scopes beyond maxNames of a tenant, kind and month share one name, unless the contract names them.
const (
	maxNames  = 1024
	eachScope = "*"
	otherName = "~"
)

// scope is an entry of a contract: limited says that it has a ceiling.
type scope struct {
	kind, id string
	limited  bool
}

func scopesOfVersion(v *weirv1.TenantVersion) []scope {
	var out []scope
	for _, s := range v.GetScopes() {
		c := s.GetCeilings()
		out = append(out, scope{s.GetKind(), s.GetId(), c.GetMinuteUsd() != "" || c.GetDayUsd() != "" || c.GetMonthUsd() != ""})
	}
	return out
}

// counts reports whether a value of a kind counts in a sub-scope, and whether the contract names it.
func (c contract) counts(kind, value string) (counted, named bool) {
	for _, s := range c.scopes {
		if s.kind == kind && s.id == value && value != eachScope {
			return s.limited, true
		}
	}
	for _, s := range c.scopes {
		if s.kind == kind && s.id == eachScope && plainID(value) {
			return s.limited, false
		}
	}
	return false, false
}

// plainID is the shape that every id of a request has.
func plainID(s string) bool {
	const allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-"
	return s != "" && len(s) <= 128 && strings.Trim(s, allowed) == ""
}

// kindOf is the name of a kind of sub-scopes in contracts and events, "" for what is none.
func kindOf(k weirv1.ScopeKind) string {
	return kindOfColumn(scopeColumn(k))
}

// scopeText is an entry's sub-scopes, in order, without branches.
func scopeText(e entry) string {
	var out []string
	for _, k := range e.GetScopes() {
		if isBranch(k) {
			continue
		}
		out = append(out, kindOf(k.GetKind())+" "+k.GetId())
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// namesSeen counts the names of a tenant's sub-scopes by kind and month, in the order of the journal.
type namesSeen map[[3]string]map[string]bool

func (n namesSeen) key(e entry, kind string) [3]string {
	return [3]string{e.GetTenantId(), kind, fmt.Sprint(e.GetWindows().GetMonth())}
}

// full reports whether a new name would be one too many.
func (n namesSeen) full(e entry, kind string) bool { return len(n[n.key(e, kind)]) >= maxNames }

func (n namesSeen) note(e entry) {
	for _, s := range e.GetScopes() {
		if isBranch(s) {
			continue
		}
		k := n.key(e, kindOf(s.GetKind()))
		if n[k] == nil {
			n[k] = map[string]bool{}
		}
		if s.GetId() != otherName {
			n[k][s.GetId()] = true
		}
	}
}

// checkScopes holds the sub-scopes of an entry against what it reverses, or against its tenant's contract. Those of a
// reservation are what its hold counted in, by a contract that may be a little older: checkEventScopes knows better while
// the event is in the log.
func checkScopes(e entry, c contracts, names namesSeen, j *journal, r *Report) {
	defer names.note(e)
	what := e.GetId() + " sub-scopes"
	switch e.GetKind() {
	case weirv1.EntryKind_ENTRY_KIND_REVERSAL:
		if n, ok := j.byID[e.GetReversesId()]; ok {
			same(r, "journal", what, scopeText(j.entries[n]), scopeText(e))
			same(r, "journal", e.GetId()+" branches", strings.Join(branchesOf(j.entries[n].LedgerEntry), ", "), strings.Join(branchesOf(e.LedgerEntry), ", "))
		}
		return
	case weirv1.EntryKind_ENTRY_KIND_CIRCUIT_BREAKER_TERMINATION:
		same(r, "journal", what, "", scopeText(e))
		same(r, "journal", e.GetId()+" branches", "", strings.Join(branchesOf(e.LedgerEntry), ", "))
		return
	}
	at := e.GetEventTime().AsTime()
	want, versions := c.expected(e, at, names), []contract{c.version(at)}
	if e.GetReservedAt() == nil {
		same(r, "journal", what, want, scopeText(e))
		return
	}
	if versions = append(versions, c.version(at.Add(-scopeSlack))); !isOf(e, versions) {
		r.differ("journal", what, "of its cost centre, agent or key, by the contract", scopeText(e))
	}
}

// expected is what the contract at a time makes an entry count in that nobody reserved.
func (c contracts) expected(e entry, at time.Time, names namesSeen) string {
	var out []string
	for kind, value := range valuesOf(e) {
		counted, named := c.version(at).counts(kind, value)
		if !counted {
			continue
		}
		if !named && names.full(e, kind) && !names[names.key(e, kind)][value] {
			value = otherName
		}
		out = append(out, kind+" "+value)
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

func valuesOf(e entry) map[string]string {
	l := e.GetLineage()
	return map[string]string{"cost_center": l.GetCostCenter(), "agent": l.GetAgentId(), "api_key": e.GetApiKeyId()}
}

// isOf reports whether each sub-scope is the entry's own value, or the cost centre of a call that named none, and one of
// the contracts has a ceiling for it.
func isOf(e entry, versions []contract) bool {
	values := valuesOf(e)
	for _, s := range e.GetScopes() {
		if isBranch(s) {
			continue
		}
		kind, id := kindOf(s.GetKind()), s.GetId()
		fits := id == values[kind] || id == otherName || kind == "cost_center" && id == "unassigned"
		if id == otherName {
			id = values[kind]
		}
		ceiling := slices.ContainsFunc(versions, func(c contract) bool {
			counted, _ := c.counts(kind, id)
			return counted
		})
		if kind == "" || !fits || !ceiling {
			return false
		}
	}
	return true
}

// checkEventScopes holds a reservation's entry against its event: what the hold counted in, name by name, but for those
// that were too many.
func checkEventScopes(e entry, ev usageevent.Event, r *Report) {
	if e.GetReservedAt() == nil || ev.Data.Reservation == nil {
		return
	}
	var want []string
	for kind, id := range ev.Data.Reservation.Scopes {
		if slices.ContainsFunc(e.GetScopes(), func(k *weirv1.ScopeKey) bool { return kindOf(k.GetKind()) == kind && k.GetId() == otherName }) {
			id = otherName
		}
		want = append(want, kind+" "+id)
	}
	slices.Sort(want)
	same(r, "journal", e.GetId()+" sub-scopes of its reservation", strings.Join(want, ", "), scopeText(e))
	same(r, "journal", e.GetId()+" API key", ev.Data.APIKeyID, e.GetApiKeyId())
}
