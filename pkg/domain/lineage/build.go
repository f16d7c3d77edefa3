package lineage

import (
	"slices"
	"strconv"
	"strings"
)

// builder makes a Tree. Its steps are those of Build, in order.
type builder struct {
	nodes   []*Node
	byPlace map[string]*Node
	byAgent map[string][]*Node // by name
	started map[string]bool    // names that agents at depth 1 give as their parent's, which the root's own agent has then
}

// node is the node of a place, made if it is new.
func (b *builder) node(agent, parent string, depth int32, branches []string) *Node {
	if agent == "" {
		agent = Unassigned
	}
	sorted := slices.Sorted(slices.Values(branches))
	place := strings.Join(append([]string{agent, parent, strconv.Itoa(int(depth))}, sorted...), "\x00")
	n := b.byPlace[place]
	if n == nil {
		n = &Node{AgentID: agent, ParentID: parent, Depth: depth, Branches: sorted}
		b.byPlace[place] = n
		b.add(n)
	}
	return n
}

func (b *builder) add(n *Node) {
	b.nodes = append(b.nodes, n)
	b.byAgent[n.AgentID] = append(b.byAgent[n.AgentID], n)
	if n.Depth == 1 {
		b.started[n.ParentID] = true
	}
}

func (b *builder) sort() { slices.SortFunc(b.nodes, compare) }

// matching are those of some nodes that ok is true of.
func matching(nodes []*Node, ok func(*Node) bool) []*Node {
	var out []*Node
	for _, n := range nodes {
		if ok(n) {
			out = append(out, n)
		}
	}
	return out
}

// unite takes calls of claimed lineage for those of the one agent that they can be of: that with the same parent; and, of a
// claim without a parent, the one claimed agent of that name, unless the root's own agent has it.
func (b *builder) unite(rootAgent string) {
	united := map[*Node]bool{}
	for _, claim := range matching(b.nodes, func(n *Node) bool { return n.Depth == 0 && len(n.Branches) == 0 }) {
		if claim.ParentID == "" && (claim.AgentID == rootAgent || b.started[claim.AgentID]) {
			continue
		}
		others := matching(b.byAgent[claim.AgentID], func(n *Node) bool {
			same := n != claim && n.ParentID != ""
			return same && (n.ParentID == claim.ParentID || claim.ParentID == "" && n.Depth == 0)
		})
		if len(others) == 1 {
			others[0].Own = others[0].Own.plus(claim.Own)
			united[claim] = true
			b.byAgent[claim.AgentID] = slices.DeleteFunc(b.byAgent[claim.AgentID], func(n *Node) bool { return n == claim })
		}
	}
	b.nodes = slices.DeleteFunc(b.nodes, func(n *Node) bool { return united[n] })
}

// place gives nodes their parents. The deepest go first: a parent that has no calls is made, and is then to be placed itself.
func (b *builder) place(rootAgent string) {
	if rootAgent != "" {
		b.silent(rootAgent, 0)
	}
	var adrift []*Node // of a depth that is known, under a parent that is not
	for depth := b.deepest(); depth > 0; depth-- {
		for _, n := range matching(b.nodes, func(n *Node) bool { return n.Depth == depth }) {
			if !b.adopt(n, depth-1) {
				adrift = append(adrift, n)
			}
		}
	}
	if top := b.top(rootAgent); top != nil {
		for _, n := range adrift {
			n.parent, n.Unplaced = top, n.Depth != 1 || n.ParentID != "" // who is nobody's child by name, at depth 1, is its child
		}
	}
	for _, n := range matching(b.nodes, func(n *Node) bool { return n.Depth == 0 && n.ParentID != "" }) {
		b.adoptClaim(n)
	}
}

func (b *builder) deepest() int32 {
	var deepest int32
	for _, n := range b.nodes {
		deepest = max(deepest, n.Depth)
	}
	return deepest
}

// silent is the agent of that name at that depth of which nothing else is known, made if there is none.
func (b *builder) silent(agent string, depth int32) *Node {
	for _, n := range b.byAgent[agent] {
		if n.Depth == depth && n.ParentID == "" && len(n.Branches) == 0 {
			return n
		}
	}
	n := &Node{AgentID: agent, Depth: depth, Silent: true}
	b.add(n)
	return n
}

// adopt looks for the parent of a node one level up: the agent of that name that counts in most of the node's branches and in
// no other. Two such are no answer, none is a silent one. False: the parent is not known.
func (b *builder) adopt(n *Node, depth int32) bool {
	if n.ParentID == "" {
		n.Unplaced = true
		return false
	}
	var best []*Node
	for _, p := range b.byAgent[n.ParentID] {
		if p.Depth != depth || depth == 0 && p.ParentID != "" || !within(p.Branches, n.Branches) {
			continue
		}
		if len(best) > 0 && len(p.Branches) > len(best[0].Branches) {
			best = nil
		}
		if len(best) == 0 || len(p.Branches) == len(best[0].Branches) {
			best = append(best, p)
		}
	}
	switch len(best) {
	case 0:
		n.parent = b.silent(n.ParentID, depth)
	case 1:
		n.parent = best[0]
	default:
		n.Unplaced = true
		return false
	}
	return true
}

func within(some, all []string) bool {
	return !slices.ContainsFunc(some, func(id string) bool { return !slices.Contains(all, id) })
}

// top is the root's own agent: the one that is known, else the only one without a parent that agents at depth 1 name, else the
// only one without a parent. Nil if there are several.
func (b *builder) top(rootAgent string) *Node {
	tops := matching(b.nodes, func(n *Node) bool { return n.Depth == 0 && n.ParentID == "" })
	for _, is := range []func(*Node) bool{
		func(n *Node) bool { return n.AgentID == rootAgent },
		func(n *Node) bool { return b.started[n.AgentID] },
		func(n *Node) bool { return true },
	} {
		if some := matching(tops, is); len(some) == 1 {
			return some[0]
		}
	}
	return nil
}

// adoptClaim places a node whose depth nobody proved under the one agent that has its parent's name, at whatever depth.
func (b *builder) adoptClaim(n *Node) {
	switch named := b.byAgent[n.ParentID]; len(named) {
	case 0:
		n.parent = b.silent(n.ParentID, 0)
		n.parent.Unplaced = true
	case 1:
		n.parent = named[0]
	default:
		n.Unplaced = true
	}
}

// cut opens every cycle above its first node. Only claims can lead in a circle: a proved parent is one level up.
func (b *builder) cut() {
	const walking, done = 1, 2
	state := map[*Node]int{}
	for _, start := range b.nodes {
		var path []*Node
		for at := start; at != nil && state[at] != done; at = at.parent {
			if state[at] == walking {
				cycle := path[slices.Index(path, at):]
				for _, c := range cycle {
					c.Cycle = true
				}
				slices.MinFunc(cycle, compare).parent = nil
				break
			}
			state[at] = walking
			path = append(path, at)
		}
		for _, p := range path {
			state[p] = done
		}
	}
}

// link fills in children, where branches begin, and an order with parents first; then costs are added up, children first.
func (b *builder) link() Tree {
	var t Tree
	for _, n := range b.nodes {
		if n.parent == nil {
			t.Roots = append(t.Roots, n)
		} else {
			n.parent.Children = append(n.parent.Children, n)
		}
	}
	t.order = slices.Clone(t.Roots)
	for i := 0; i < len(t.order); i++ {
		t.order = append(t.order, t.order[i].Children...)
	}
	for _, n := range t.order {
		for _, id := range n.Branches {
			if !n.under(id) {
				n.Begins = append(n.Begins, id)
			}
		}
	}
	for _, n := range slices.Backward(t.order) {
		n.Subtree = n.Subtree.plus(n.Own)
		if n.parent != nil {
			n.parent.Subtree = n.parent.Subtree.plus(n.Subtree)
		}
	}
	return t
}

// under reports whether an agent above counts in a branch.
func (n *Node) under(branch string) bool {
	for p := n.parent; p != nil; p = p.parent {
		if slices.Contains(p.Branches, branch) {
			return true
		}
	}
	return false
}
