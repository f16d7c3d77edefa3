//go:build integration

package budgetstore

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/window"
)

// tree is the plain model of one execution: who started whom, with which limits, and what each subtree has.
type tree struct {
	*world
	rng   *rand.Rand
	nodes []*node // the first is the root
	holds map[string]*treeHold
	// offset and version only rise.
	offset, version int64
}

// node is an agent. Its figures are those of itself with all its descendants; they count only where it has a limit.
type node struct {
	parent              *node
	branch              admit.Branch // no id: no limit of its own
	own, held, external money.Nano
}

type treeHold struct {
	ref Ref
	of  *node
	// nano is what it holds.
	nano money.Nano
}

// up visits a node and all above it.
func (n *node) up(visit func(*node)) {
	for ; n != nil; n = n.parent {
		visit(n)
	}
}

func (n *node) add(own, held money.Nano) { n.up(func(n *node) { n.own += own; n.held += held }) }

// chain is what a token of the node carries.
func (n *node) chain() admit.Execution {
	x := admit.Execution{Root: "root"}
	n.up(func(n *node) {
		x.Depth++
		if n.branch.ID != "" {
			x.Branches = append([]admit.Branch{n.branch}, x.Branches...)
		}
	})
	return x
}

// limiting is the limit that refuses an amount: the root's first, then from above; ok is false for none.
func (n *node) limiting(nano money.Nano) (which *node, ok bool) {
	n.up(func(n *node) {
		if n.branch.MaxCost > 0 && n.own+n.external+nano > n.branch.MaxCost {
			which, ok = n, true
		}
	})
	return which, ok
}

// rest is the least that is left on the way up.
func (n *node) rest() money.Nano {
	least := money.MaxNano
	n.up(func(n *node) {
		if n.branch.MaxCost > 0 {
			least = min(least, n.branch.MaxCost-n.own-n.external)
		}
	})
	return least
}

// Goal: random trees of agents with limits, in which everything that may happen to a reservation happens, against the plain
// rule: each decision, each refusal's figures and rest, and after each step what every branch has.
func TestBranchTree(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			tr := &tree{world: newWorld(t), rng: rand.New(rand.NewPCG(seed, 7)), holds: map[string]*treeHold{}}
			root := &node{}
			root.branch.MaxCost = money.Nano(20+tr.rng.IntN(60)) * dollar
			tr.nodes = []*node{root}
			_, err := tr.store.StartExecution(t.Context(), tr.tenant, "root", admit.ExecutionLimits{MaxCost: root.branch.MaxCost})
			tr.must(err)
			for step := range 400 {
				tr.step()
				tr.compare(step)
			}
		})
	}
}

func (tr *tree) step() {
	tr.clock.advance(time.Duration(tr.rng.IntN(2_000_000)) * time.Microsecond)
	switch n := tr.rng.IntN(100); {
	case n < 6 && len(tr.nodes) < 24:
		tr.start()
	case n < 60:
		tr.ask()
	case n < 75:
		tr.end()
	case n < 85:
		tr.grow()
	case n < 90:
		tr.expire()
	case n < 95:
		tr.journal()
	default:
		tr.report()
	}
}

func (tr *tree) any() *node { return tr.nodes[tr.rng.IntN(len(tr.nodes))] }

func (tr *tree) amount() money.Nano { return money.Nano(tr.rng.IntN(int(3 * dollar))) }

// start gives an agent a child, half of them with a limit of its own.
func (tr *tree) start() {
	child := &node{parent: tr.any()}
	if tr.rng.IntN(2) == 0 && len(child.chain().Branches) < admit.MaxBranches {
		child.branch = admit.Branch{ID: fmt.Sprintf("b%d", len(tr.nodes)), MaxCost: money.Nano(1+tr.rng.IntN(12)) * dollar}
		tr.must(tr.store.StartBranch(tr.t.Context(), tr.tenant, "root", child.branch, time.Hour))
	}
	tr.nodes = append(tr.nodes, child)
}

// ask reserves, one call or several in a batch.
func (tr *tree) ask() {
	var requests []Request
	var of []*node
	for range 1 + tr.rng.IntN(2)*tr.rng.IntN(4) {
		n := tr.any()
		requests, of = append(requests, tr.in(n.chain(), tr.amount())), append(of, n)
	}
	var results []Result
	if len(requests) > 1 {
		results = tr.store.ReserveBatch(tr.t.Context(), requests)
	} else {
		results = []Result{{Reply: tr.reserve(requests[0])}}
	}
	for i, r := range results {
		tr.must(r.Err)
		n, nano := of[i], requests[i].Estimate.Nanos
		which, refused := n.limiting(nano)
		if refused {
			kind := window.Branch
			if which.parent == nil {
				kind = ""
			}
			if no := r.Reply.Refusal; r.Reply.Verdict != Refused || no.Code != admit.ExecutionBudgetExceeded || no.ScopeKind != kind || no.ScopeID != which.branch.ID ||
				no.Used != int64(which.own+which.external) || no.Ceiling != int64(which.branch.MaxCost) {
				tr.t.Fatalf("%d nano: verdict %d, %+v, want refused by %+v", nano, r.Reply.Verdict, no, which)
			}
			continue
		}
		n.add(nano, nano)
		if x := r.Reply.Answer.Execution; r.Reply.Verdict != Admitted || x.Remaining != n.rest() || x.Spent != tr.nodes[0].own+tr.nodes[0].external {
			tr.t.Fatalf("%d nano: verdict %d, %+v, want rest %d", nano, r.Reply.Verdict, x, n.rest())
		}
		ref := Ref{Tenant: tr.tenant, ID: requests[i].ID, ReservedAt: r.Reply.Answer.ReservedAt}
		tr.holds[ref.ID] = &treeHold{ref: ref, of: n, nano: nano}
	}
}

// hold is one of the open ones; nil if there is none.
func (tr *tree) hold() *treeHold {
	if len(tr.holds) == 0 {
		return nil
	}
	return tr.holds[pick(tr.rng, slices.Sorted(maps.Keys(tr.holds)))]
}

// end settles at any amount, also above what is held, or releases.
func (tr *tree) end() {
	h := tr.hold()
	if h == nil {
		return
	}
	actual := tr.amount() * money.Nano(tr.rng.IntN(2))
	ending, err := tr.store.Settle(tr.t.Context(), h.ref, admit.Estimate{Nanos: actual})
	tr.must(err)
	if ending.Applied {
		h.of.add(actual-h.nano, -h.nano)
	}
	delete(tr.holds, h.ref.ID)
}

func (tr *tree) grow() {
	h := tr.hold()
	if h == nil {
		return
	}
	more := tr.amount() / 2
	reply, err := tr.store.Extend(tr.t.Context(), ExtendRequest{Ref: h.ref, Lease: time.Minute, AtLeast: admit.Estimate{Nanos: h.nano + more}, Limits: tr.limits,
		Branches: h.of.chain().Branches, Calendar: tr.calendar()})
	tr.must(err)
	_, refused := h.of.limiting(more)
	switch {
	case !reply.Found || more == 0:
	case reply.Stop != refused:
		tr.t.Fatalf("grown by %d: %+v, want stop %t", more, reply, refused)
	case !refused:
		h.of.add(more, more)
		h.nano += more
	}
}

// expire ends what was left alone: its estimate stays.
func (tr *tree) expire() {
	tr.clock.advance(time.Duration(tr.rng.IntN(90)) * time.Second)
	due, err := tr.store.Due(tr.t.Context(), tr.tenant, 100)
	tr.must(err)
	for _, d := range due {
		h := tr.holds[d.ID]
		if want := len(h.of.chain().Branches); len(d.Branches) != want || d.Held.Nanos != h.nano {
			tr.t.Fatalf("due: %+v, want %d branches and %d", d, want, h.nano)
		}
		_, err := tr.store.Expire(tr.t.Context(), h.ref)
		tr.must(err)
		h.of.add(0, -h.nano)
		delete(tr.holds, d.ID)
	}
}

// journal adds what no script applied, of a reservation that Redis has forgotten or of one that is open still.
func (tr *tree) journal() {
	tr.offset++
	e := JournalEntry{Offset: tr.offset, Kind: Journal, ReservationID: fmt.Sprintf("j%d", tr.offset), ReservedAt: tr.clock.now(), Day: 20260630,
		Root: "root", Actual: admit.Estimate{Nanos: tr.amount()}}
	n, before := tr.any(), money.Nano(0)
	if h := tr.hold(); h != nil && tr.rng.IntN(2) == 0 {
		e.ReservationID, e.ReservedAt, n, before = h.ref.ID, h.ref.ReservedAt, h.of, h.nano
		delete(tr.holds, h.ref.ID)
	}
	for _, b := range n.chain().Branches {
		e.Scopes = append(e.Scopes, ScopeRef{Scope: window.Scope{Kind: window.Branch, ID: b.ID}})
	}
	for range 2 { // the second changes nothing
		_, err := tr.store.ApplyJournal(tr.t.Context(), tr.tenant, []JournalEntry{e})
		tr.must(err)
	}
	n.add(e.Actual.Nanos-before, -before)
}

// report is usage that never asked: the aggregator's totals, of which an old one changes nothing.
func (tr *tree) report() {
	n, nano := tr.any(), tr.amount()
	tr.version++
	var totals []ExternalTotal
	n.up(func(n *node) {
		n.external += nano
		total := ExternalTotal{Scope: BranchScope, Root: n.branch.ID, Version: tr.version, Nanos: n.external}
		if n.parent == nil {
			total.Scope, total.Root = ExecutionScope, "root"
		}
		if total.Root != "" {
			old := total
			old.Version, old.Nanos = total.Version-1, 0
			totals = append(totals, total, old)
		}
	})
	_, err := tr.store.ApplyExternal(tr.t.Context(), tr.tenant, totals)
	tr.must(err)
}

// compare reads every counter that a limit is about.
func (tr *tree) compare(step int) {
	tr.t.Helper()
	for i, n := range tr.nodes {
		x, err := ExecutionState{}, error(nil)
		switch {
		case i == 0:
			x, err = tr.store.Execution(tr.t.Context(), tr.tenant, "root")
		case n.branch.ID == "":
			continue
		default:
			x, err = tr.store.Branch(tr.t.Context(), tr.tenant, n.branch.ID)
		}
		tr.must(err)
		if x.Own != n.own || x.Held != n.held || x.External != n.external {
			tr.t.Fatalf("step %d, node %d %q: %+v, want own %d, held %d, external %d", step, i, n.branch.ID, x, n.own, n.held, n.external)
		}
	}
}
