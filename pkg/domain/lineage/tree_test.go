package lineage

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weir-project/weir/pkg/domain/money"
	"pgregory.net/rapid"
)

func dollars(n int64) money.USD { return money.Nano(n * 1_000_000_000).USD() }

// call is a claim: nobody proved its depth.
func call(agent, parent string, usd int64) Call {
	return Call{AgentID: agent, ParentAgentID: parent, Cost: dollars(usd), Calls: 1}
}

func (c Call) at(depth int32, branches ...string) Call {
	c.Depth, c.Branches = depth, branches
	return c
}

// outline is a tree as text: a line for each node, indented, with own and subtree costs and what is special about it.
func outline(t Tree) string {
	var b strings.Builder
	var walk func(nodes []*Node, depth int)
	walk = func(nodes []*Node, depth int) {
		for _, n := range nodes {
			fmt.Fprintf(&b, "%s%s %s/%s", strings.Repeat(" ", depth), n.AgentID, n.Own.Cost, n.Subtree.Cost)
			if n.Silent {
				b.WriteString(" silent")
			}
			if n.Cycle {
				b.WriteString(" cycle")
			}
			if n.Unplaced {
				b.WriteString(" of some " + n.ParentID)
			}
			if len(n.Begins) > 0 {
				b.WriteString(" +" + strings.Join(n.Begins, "+"))
			}
			b.WriteString("\n")
			walk(n.Children, depth+1)
		}
	}
	walk(t.Roots, 0)
	return b.String()
}

func TestTree(t *testing.T) {
	for _, c := range []struct {
		name, root string
		calls      []Call
		want       string
	}{
		{"claims", "", []Call{call("scraper", "lead", 3), call("lead", "", 1), call("enricher", "summariser", 5), call("summariser", "lead", 2), call("scraper", "lead", 4), call("", "", 7)},
			"lead 1/15\n scraper 7/7\n summariser 2/7\n  enricher 5/5\nunassigned 7/7\n"},
		{"a middle agent that spent nothing", "", []Call{call("lead", "", 1), call("worker", "middle", 5).at(2), call("writer", "lead", 2).at(1)},
			"lead 1/8\n middle 0/5 silent\n  worker 5/5\n writer 2/2\n"},
		{"a root that spent nothing", "", []Call{call("worker", "lead", 5).at(1)}, "lead 0/5 silent\n worker 5/5\n"},
		{"two levels that spent nothing, the root known from its start", "lead", []Call{call("worker", "middle", 5).at(2)}, "lead 0/5 silent\n middle 0/5 silent\n  worker 5/5\n"},
		{"two levels that spent nothing, the root unknown", "", []Call{call("worker", "middle", 5).at(2)}, "middle 0/5 silent of some \n worker 5/5\n"},
		{"who started a silent agent further down is not known", "", []Call{call("lead", "", 1), call("w", "m", 5).at(3)}, "lead 1/6\n m 0/5 silent of some \n  w 5/5\n"},
		{"one name under two parents", "", []Call{call("lead", "", 1), call("a", "lead", 1).at(1), call("b", "lead", 1).at(1), call("tool", "a", 2).at(2), call("tool", "b", 3).at(2)},
			"lead 1/8\n a 1/3\n  tool 2/2\n b 1/4\n  tool 3/3\n"},
		{"one name all the way down", "", []Call{call("x", "", 1), call("x", "x", 2).at(1), call("x", "x", 4).at(2)}, "x 1/7\n x 2/6\n  x 4/4\n"},
		{"which of two parents of a name is not known", "", []Call{call("lead", "", 1), call("a", "lead", 1).at(1), call("b", "lead", 1).at(1), call("m", "a", 1).at(2), call("m", "b", 1).at(2), call("w", "m", 9).at(3)},
			"lead 1/14\n a 1/2\n  m 1/1\n b 1/2\n  m 1/1\n w 9/9 of some m\n"},
		{"branches tell agents of one name apart", "", []Call{call("lead", "", 1), call("a", "lead", 1).at(1), call("a", "lead", 2).at(1, "b1"), call("w", "a", 4).at(2), call("w", "a", 8).at(2, "b2", "b1")},
			"lead 1/16\n a 1/5\n  w 4/4\n a 2/10 +b1\n  w 8/8 +b2\n"},
		{"a branch below a silent agent", "", []Call{call("lead", "", 1), call("w", "m", 4).at(2, "b1")}, "lead 1/5\n m 0/4 silent\n  w 4/4 +b1\n"},
		{"a claim of the agent that a token proved", "", []Call{call("lead", "", 1), call("a", "lead", 1).at(1, "b1"), call("a", "lead", 2), call("lead", "", 3)}, "lead 4/7\n a 3/3 +b1\n"},
		{"a claim without a parent", "", []Call{call("x", "p", 1), call("x", "", 2), call("p", "", 4)}, "p 4/7\n x 3/3\n"},
		{"a claim of a parent that made no call", "", []Call{call("child", "never-seen", 2)}, "never-seen 0/2 silent of some \n child 2/2\n"},
		{"claims of two parents", "", []Call{call("x", "p2", 1), call("x", "p1", 1)}, "p1 0/1 silent of some \n x 1/1\np2 0/1 silent of some \n x 1/1\n"},
		{"claims in a circle", "", []Call{call("b", "a", 1), call("a", "c", 1), call("c", "b", 1), call("self", "self", 4)}, "a 1/3 cycle\n b 1/2 cycle\n  c 1/1 cycle\nself 4/4 cycle\n"},
		{"a root that started and did nothing else", "lead", nil, "lead 0/0 silent\n"},
	} {
		if got := outline(Build(c.root, c.calls)); got != c.want {
			t.Errorf("%s:\n%swant\n%s", c.name, got, c.want)
		}
	}
}

func TestPath(t *testing.T) {
	tree := Build("", []Call{call("lead", "", 1), call("worker", "middle", 5).at(2)})
	nodes := tree.Nodes()
	path, sum := Path(nodes[len(nodes)-1])
	var names []string
	for _, n := range path {
		names = append(names, n.AgentID)
	}
	if got := strings.Join(names, " "); got != "lead middle worker" || sum.Cost.String() != "6" || tree.Total().Calls != 2 {
		t.Errorf("path %s costs %s of %+v", got, sum.Cost, tree.Total())
	}
}

// In any order the tree is the same, and it adds up, whatever was claimed and proved. A proved agent is one level below its
// parent, or said to be unplaced.
func TestTreeProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.StringMatching("[a-e]?")
		calls := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Call {
			c := call(id.Draw(t, "agent"), id.Draw(t, "parent"), rapid.Int64Range(-5, 5).Draw(t, "usd"))
			return c.at(rapid.Int32Range(0, 3).Draw(t, "depth"), rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"b1", "b2"}), 0, 2, rapid.ID).Draw(t, "branches")...)
		}), 0, 20).Draw(t, "calls")
		root := id.Draw(t, "root")
		var sum Sum
		for _, c := range calls {
			sum = sum.plus(Sum{Cost: c.Cost, Calls: c.Calls})
		}
		tree := Build(root, calls)
		if got := tree.Total(); got.Cost.Cmp(sum.Cost) != 0 || got.Calls != sum.Calls {
			t.Fatalf("total %+v, want %+v of\n%s", got, sum, outline(tree))
		}
		if a, b := outline(tree), outline(Build(root, rapid.Permutation(calls).Draw(t, "order"))); a != b {
			t.Fatalf("order matters:\n%s\n%s", a, b)
		}
		for _, n := range tree.Nodes() {
			if path, _ := Path(n); n.Depth > 0 && !n.Unplaced && len(path) > 1 && path[len(path)-2].Depth != n.Depth-1 {
				t.Fatalf("%s at depth %d stands below depth %d", n.AgentID, n.Depth, path[len(path)-2].Depth)
			}
		}
	})
}
