package lineage

import (
	"reflect"
	"slices"
	"testing"

	"github.com/weir-project/weir/pkg/domain/money"
	"pgregory.net/rapid"
)

func dollars(n int64) money.USD { return money.Nano(n * 1_000_000_000).USD() }

func call(agent, parent string, usd int64) Call {
	return Call{AgentID: agent, ParentAgentID: parent, Cost: dollars(usd), Calls: 1}
}

func costs(t *testing.T, tree Tree, id string) (own, subtree string, n Node) {
	t.Helper()
	n, ok := tree.Node(id)
	if !ok {
		t.Fatalf("no node %s", id)
	}
	return n.Own.Cost.String(), n.Subtree.Cost.String(), n
}

func TestTree(t *testing.T) {
	tree := Build([]Call{call("scraper", "lead", 3), call("lead", "", 1), call("enricher", "summariser", 5), call("summariser", "lead", 2), call("scraper", "lead", 4), call("", "", 7)})
	if own, sub, _ := costs(t, tree, "lead"); own != "1" || sub != "15" {
		t.Errorf("lead: own %s, subtree %s", own, sub)
	}
	if own, sub, n := costs(t, tree, "scraper"); own != "7" || sub != "7" || n.Depth != 1 || n.Own.Calls != 2 {
		t.Errorf("scraper: own %s, subtree %s, %+v", own, sub, n)
	}
	if ids, sum := tree.Path("enricher"); !slices.Equal(ids, []string{"lead", "summariser", "enricher"}) || sum.Cost.String() != "8" {
		t.Errorf("path %v costs %s", ids, sum.Cost)
	}
	if got := tree.Roots(); !slices.Equal(got, []string{"lead", Unassigned}) {
		t.Errorf("roots %v", got)
	}
	if got := tree.Total(); got.Cost.String() != "22" || got.Calls != 6 {
		t.Errorf("total %+v", got)
	}
}

func TestOrphansCyclesRivals(t *testing.T) {
	tree := Build([]Call{call("child", "never-seen", 2), call("b", "a", 1), call("a", "c", 1), call("c", "b", 1), call("self", "self", 4), call("x", "p2", 1), call("x", "p1", 1)})
	if _, sub, n := costs(t, tree, "never-seen"); sub != "2" || n.Own.Calls != 0 {
		t.Errorf("placeholder %s %+v", sub, n)
	}
	if _, _, n := costs(t, tree, "child"); !n.Orphan || n.Parent != "never-seen" {
		t.Errorf("child %+v", n)
	}
	if _, sub, n := costs(t, tree, "a"); !n.Cycle || n.Parent != "" || sub != "3" {
		t.Errorf("a: subtree %s, %+v", sub, n)
	}
	if _, sub, n := costs(t, tree, "self"); !n.Cycle || sub != "4" {
		t.Errorf("self: %s %+v", sub, n)
	}
	if _, _, n := costs(t, tree, "x"); !n.Rivals || n.Parent != "p1" {
		t.Errorf("x %+v", n)
	}
	if got := tree.Total().Cost.String(); got != "11" {
		t.Errorf("total %s", got)
	}
}

// In any order the tree is the same, and it adds up, whatever parents were claimed.
func TestTreeProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.StringMatching("[a-e]?")
		calls := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Call {
			return Call{AgentID: id.Draw(t, "agent"), ParentAgentID: id.Draw(t, "parent"), Cost: dollars(rapid.Int64Range(-5, 5).Draw(t, "usd")), Calls: 1}
		}), 0, 20).Draw(t, "calls")
		var sum Sum
		for _, c := range calls {
			sum = sum.plus(Sum{Cost: c.Cost, Calls: c.Calls})
		}
		tree := Build(calls)
		if got := tree.Total(); got.Cost.Cmp(sum.Cost) != 0 || got.Calls != sum.Calls {
			t.Fatalf("total %+v, want %+v", got, sum)
		}
		shuffled := rapid.Permutation(calls).Draw(t, "order")
		other := Build(shuffled)
		if !reflect.DeepEqual(tree.order, other.order) {
			t.Fatalf("order matters: %v, %v", tree.order, other.order)
		}
		for _, id := range tree.order {
			a, _ := tree.Node(id)
			b, _ := other.Node(id)
			if a.Subtree.Cost.Cmp(b.Subtree.Cost) != 0 || a.Parent != b.Parent || a.Orphan != b.Orphan || a.Cycle != b.Cycle || a.Rivals != b.Rivals {
				t.Fatalf("%s: %+v, %+v", id, a, b)
			}
			if ids, _ := tree.Path(id); len(ids) != a.Depth+1 {
				t.Fatalf("%s has depth %d and path %v", id, a.Depth, ids)
			}
		}
	})
}
