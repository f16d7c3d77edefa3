package lineage

import (
	"cmp"
	"slices"
	"strings"

	"github.com/weir-project/weir/pkg/domain/money"
)

// Unassigned stands for an agent or cost centre that nobody named.
const Unassigned = "unassigned"

// Call is one ledger entry's place and cost. Every call names one paying leaf: its agent.
type Call struct {
	AgentID, ParentAgentID string
	// Depth is 0 for the root's own agent, and where nobody proved it: a claim names at most a parent.
	Depth int32
	// Branches are those in which the call counts, in any order.
	Branches []string
	// Cost is signed: a reversal's is negative.
	Cost money.USD
	// Calls and Unpriced are +1, 0 or -1.
	Calls, Unpriced int64
}

// Node is one agent of an execution: calls with the same agent, parent, depth and branches are one agent's. Agents of one name
// that one agent started under the same limits cannot be told apart, and are one node.
type Node struct {
	// AgentID is its name. Other nodes may have the same.
	AgentID string
	// ParentID is the name of the agent that started it, as its calls say; "" where they name none.
	ParentID string
	// Depth is 0 for the root's own agent, and where nobody proved it.
	Depth int32
	// Branches are those in which its calls count, sorted; unknown (nil) of a silent node.
	Branches []string
	// Begins are those of Branches that begin with this agent, or with a silent one above it.
	Begins []string
	// Children are sorted by name. They are shared: do not change them.
	Children []*Node
	Own      Sum
	// Subtree is Own and everything below.
	Subtree Sum
	// Silent: no call of its own is there; that it exists is known from its children, or from whoever started the execution.
	Silent bool
	// Unplaced: under which agent it belongs is not known, as its parent is none of the calls', or one of several of that name. It
	// stands under the root's agent if its depth is proved, as every such agent does somewhere, and else at the top.
	Unplaced bool
	// Cycle: its parents lead back to it. The cycle is cut above its first node.
	Cycle bool

	parent *Node
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
	// Roots are the nodes without a parent, sorted.
	Roots []*Node
	order []*Node // parents before children
}

// Build makes the tree of an execution's calls. rootAgent is the root's own agent as whoever started the execution knows it, "" if
// nobody does.
func Build(rootAgent string, calls []Call) Tree {
	b := builder{byPlace: map[string]*Node{}, byAgent: map[string][]*Node{}, started: map[string]bool{}}
	for _, c := range calls {
		n := b.node(c.AgentID, c.ParentAgentID, c.Depth, c.Branches)
		n.Own = n.Own.plus(Sum{Cost: c.Cost, Calls: c.Calls, Unpriced: c.Unpriced})
	}
	b.sort()
	b.unite(rootAgent)
	b.place(rootAgent)
	b.sort()
	b.cut()
	return b.link()
}

// Path returns the nodes from a root down to n, and what they cost together (without their other children). For users of this
// package as a library, beside the cost of a node and of a subtree; `weir tree` shows the whole tree.
func Path(n *Node) ([]*Node, Sum) {
	var path []*Node
	var sum Sum
	for ; n != nil; n = n.parent {
		path = append(path, n)
		sum = sum.plus(n.Own)
	}
	slices.Reverse(path)
	return path, sum
}

// Nodes are all nodes, parents before their children.
func (t Tree) Nodes() []*Node { return t.order }

// Total is the cost of the whole execution.
func (t Tree) Total() Sum {
	var sum Sum
	for _, n := range t.Roots {
		sum = sum.plus(n.Subtree)
	}
	return sum
}

// compare is an order of nodes that does not depend on the order of calls.
func compare(a, b *Node) int {
	return cmp.Or(strings.Compare(a.AgentID, b.AgentID), strings.Compare(a.ParentID, b.ParentID), cmp.Compare(a.Depth, b.Depth),
		slices.Compare(a.Branches, b.Branches))
}
