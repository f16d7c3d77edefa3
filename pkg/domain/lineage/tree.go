package lineage

import (
	"maps"
	"slices"

	"github.com/weir-project/weir/pkg/domain/money"
)

// Unassigned stands for an agent or cost centre that nobody named.
const Unassigned = "unassigned"

// Call is one ledger entry's place and cost. Every call names one paying leaf: its agent.
type Call struct {
	AgentID, ParentAgentID string
	// Cost is signed: a reversal's is negative.
	Cost money.USD
	// Calls and Unpriced are +1, 0 or -1.
	Calls, Unpriced int64
}

// Node is one agent of an execution.
type Node struct {
	ID string
	// Parent is the agent above, "" for a root of the tree.
	Parent string
	// Children are sorted by id.
	Children []string
	Own      Sum
	// Subtree is Own and everything below.
	Subtree Sum
	// Orphan: its parent has made no call of its own (it may still come).
	Orphan bool
	// Cycle: its parents lead back to it. The cycle is cut above its smallest id.
	Cycle bool
	// Rivals: calls named different parents; the smallest id counts.
	Rivals bool
	// Depth is 0 for a root.
	Depth int
}

// Sum is the cost of some calls.
type Sum struct {
	Cost            money.USD
	Calls, Unpriced int64
}

func (s Sum) plus(o Sum) Sum {
	return Sum{Cost: s.Cost.Add(o.Cost), Calls: s.Calls + o.Calls, Unpriced: s.Unpriced + o.Unpriced}
}

// Tree is the tree (or forest) of one execution.
type Tree struct {
	nodes map[string]*Node
	order []string // parents before children
}

// Build makes the tree of an execution's calls.
func Build(calls []Call) Tree {
	t := Tree{nodes: map[string]*Node{}}
	for _, c := range calls {
		n := t.node(c.AgentID)
		n.Own = n.Own.plus(Sum{Cost: c.Cost, Calls: c.Calls, Unpriced: c.Unpriced})
		n.claim(c.ParentAgentID)
	}
	t.adopt()
	t.cut()
	t.link()
	t.roll()
	return t
}

func (t *Tree) node(id string) *Node {
	if id == "" {
		id = Unassigned
	}
	n := t.nodes[id]
	if n == nil {
		n = &Node{ID: id}
		t.nodes[id] = n
	}
	return n
}

// claim notes a parent. A call without one says nothing; of two, the smaller id counts, whichever came first.
func (n *Node) claim(parent string) {
	switch {
	case parent == "" || parent == n.Parent:
	case n.Parent == "":
		n.Parent = parent
	default:
		n.Rivals = true
		n.Parent = min(n.Parent, parent)
	}
}

// adopt gives orphans a parent that has no calls.
func (t *Tree) adopt() {
	for _, id := range slices.Sorted(maps.Keys(t.nodes)) {
		n := t.nodes[id]
		if n.Parent != "" && t.nodes[n.Parent] == nil {
			t.nodes[n.Parent] = &Node{ID: n.Parent}
		}
	}
	for _, n := range t.nodes {
		if p := t.nodes[n.Parent]; p != nil && p.Own.Calls == 0 && p.Parent == "" && p.Own.Cost.IsZero() && p.Own.Unpriced == 0 {
			n.Orphan = true
		}
	}
}

// cut opens every cycle above its smallest id.
func (t *Tree) cut() {
	state := map[string]int{} // 1 on the path being walked, 2 done
	for _, id := range slices.Sorted(maps.Keys(t.nodes)) {
		var path []string
		for at := id; at != "" && state[at] != 2; at = t.nodes[at].Parent {
			if state[at] == 1 {
				cycle := path[slices.Index(path, at):]
				for _, c := range cycle {
					t.nodes[c].Cycle = true
				}
				t.nodes[slices.Min(cycle)].Parent = ""
				break
			}
			state[at] = 1
			path = append(path, at)
		}
		for _, p := range path {
			state[p] = 2
		}
	}
}

// link fills in children, depths and an order with parents first.
func (t *Tree) link() {
	for _, id := range slices.Sorted(maps.Keys(t.nodes)) {
		if n := t.nodes[id]; n.Parent == "" {
			t.order = append(t.order, id)
		} else {
			p := t.nodes[n.Parent]
			p.Children = append(p.Children, id)
		}
	}
	for i := 0; i < len(t.order); i++ {
		n := t.nodes[t.order[i]]
		for _, c := range n.Children {
			t.nodes[c].Depth = n.Depth + 1
		}
		t.order = append(t.order, n.Children...)
	}
}

// roll adds costs up, children first.
func (t *Tree) roll() {
	for _, id := range slices.Backward(t.order) {
		n := t.nodes[id]
		n.Subtree = n.Subtree.plus(n.Own)
		if n.Parent != "" {
			p := t.nodes[n.Parent]
			p.Subtree = p.Subtree.plus(n.Subtree)
		}
	}
}

// Roots are the ids of the nodes without a parent, sorted.
func (t Tree) Roots() []string {
	var out []string
	for _, id := range t.order {
		if t.nodes[id].Parent != "" {
			break // roots come first
		}
		out = append(out, id)
	}
	return out
}

// Node returns a node by its id. Its Children are shared: do not change them.
func (t Tree) Node(id string) (Node, bool) {
	n, ok := t.nodes[id]
	if !ok {
		return Node{}, false
	}
	return *n, true
}

// Path returns the ids from a root down to id, and what they cost together (without their other children). For users of this
// package as a library, beside the cost of a node and of a subtree (design.md, section 6.2); `weir tree` shows the whole tree.
func (t Tree) Path(id string) ([]string, Sum) {
	var ids []string
	var sum Sum
	for n := t.nodes[id]; n != nil; n = t.nodes[n.Parent] {
		ids = append(ids, n.ID)
		sum = sum.plus(n.Own)
	}
	slices.Reverse(ids)
	return ids, sum
}

// Total is the cost of the whole execution.
func (t Tree) Total() Sum {
	var sum Sum
	for _, id := range t.Roots() {
		sum = sum.plus(t.nodes[id].Subtree)
	}
	return sum
}
