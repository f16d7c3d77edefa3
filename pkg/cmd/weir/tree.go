package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-project/weir/pkg/domain/lineage"
	"github.com/weir-project/weir/pkg/domain/money"
)

func (a *app) treeCmd() *cobra.Command {
	var tenant string
	c := &cobra.Command{
		Use: "tree ROOT", Short: "What an execution cost, agent by agent and subtree by subtree",
		Long: `Tree puts an execution's agents together from its rows in the ledger. A row names an agent, the agent that started it and, where
an execution token proved it, how deep it stands; so an agent that spent nothing itself is known where one that it started did.
Agents of one name are shown apart where their parents, depths or limits differ. Limits come from Postgres (the root's) and
Redis (those of child agents, while it has them). What is not known is said at the end, and in not_known (--json).

The tree is what the ledger has, which is some seconds behind the calls. Executions of several tenants may have one name: without
--tenant it is that of the only one whose rows are there, which the first line names, and an error where there are several.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.tree(c.Context(), c.OutOrStdout(), tenant, args[0])
		},
	}
	c.Flags().StringVar(&tenant, "tenant", "", "tenant, where several have an execution of that name")
	return c
}

// treeNode is one agent of the tree.
type treeNode struct {
	Agent      string `json:"agent_id"`
	Parent     string `json:"parent_agent_id,omitempty"`
	Depth      int32  `json:"depth"`
	OwnUSD     string `json:"own_usd"`
	SubtreeUSD string `json:"subtree_usd"`
	Calls      int64  `json:"calls"`
	Unpriced   int64  `json:"unpriced,omitempty"`
	// Branches are the limits of its own that begin here, or with a silent agent above.
	Branches []string `json:"branches,omitempty"`
	// Silent: no row is its own. Orphan: under which agent it belongs is not known.
	Silent   bool       `json:"silent,omitempty"`
	Orphan   bool       `json:"orphan,omitempty"`
	Cycle    bool       `json:"cycle,omitempty"`
	Children []treeNode `json:"children"`
}

// treeBranch is a child agent's own limit, with what was spent under it.
type treeBranch struct {
	ID         string  `json:"branch_id"`
	SpentUSD   string  `json:"spent_usd"`
	MaxCostUSD *string `json:"max_cost_usd"`
}

// treeEnd is the execution's end by the breaker.
type treeEnd struct {
	At     string `json:"at"`
	Reason string `json:"reason"`
}

// treeAnswer is a whole execution. MaxCostUSD is null without a limit of the root, and where it is not known.
type treeAnswer struct {
	Root       string       `json:"root_execution_id"`
	Tenant     string       `json:"tenant_id"`
	TotalUSD   string       `json:"total_usd"`
	Calls      int64        `json:"calls"`
	Unpriced   int64        `json:"unpriced"`
	MaxCostUSD *string      `json:"max_cost_usd"`
	Ended      *treeEnd     `json:"ended"`
	Agents     []treeNode   `json:"agents"`
	Branches   []treeBranch `json:"branches"`
	NotKnown   []string     `json:"not_known"`
}

// treeRows bounds the groups of rows that a tree is made of.
const treeRows = 100_000

func (a *app) tree(ctx context.Context, out io.Writer, tenant, root string) error {
	db, err := a.clickhouse(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	rows, err := db.Select(ctx, `SELECT tenant_id, agent_id, parent_agent_id, toString(depth), arrayStringConcat(branches, '\n'), toString(sum(raw_cost_usd)),
		toString(sum(multiIf(entry_kind = 'REVERSAL', -1, entry_kind IN ('USAGE', 'UNSETTLED'), 1, 0))),
		toString(sum(if(has(flags, 'unpriced'), if(entry_kind = 'REVERSAL', -1, 1), 0))),
		if(entry_kind = 'CIRCUIT_BREAKER_TERMINATION', formatDateTime(min(timestamp), '%FT%TZ', 'UTC'), '') AS ended, max(error_code)
		FROM agent_cost_ledger WHERE root_execution_id = ? AND (? = '' OR tenant_id = ?)
		GROUP BY tenant_id, agent_id, parent_agent_id, depth, branches, entry_kind
		ORDER BY ALL LIMIT ?`, root, tenant, tenant, treeRows+1)
	switch {
	case err != nil:
		return awayFrom("clickhouse", err)
	case len(rows) > treeRows:
		return no("execution %q has more than %d agents and limits, which is more than a tree shows", root, treeRows)
	case len(rows) == 0:
		return no("no execution %q in the ledger", root)
	}
	facts, err := readTree(rows)
	if err != nil {
		return err
	}
	answer := facts.answer(root, a.limitsOf(ctx, facts, root))
	if a.json {
		return printJSON(out, answer)
	}
	answer.print(out)
	return nil
}

// treeFacts is what the ledger says of an execution.
type treeFacts struct {
	tenant   string
	calls    []lineage.Call
	branches []string // each that some row counts in, in the order of the rows
	spent    map[string]money.USD
	ended    *treeEnd
}

func readTree(rows [][]string) (treeFacts, error) {
	f := treeFacts{tenant: rows[0][0], spent: map[string]money.USD{}}
	for _, r := range rows {
		if r[0] != f.tenant {
			return treeFacts{}, misuse("tenants %s and %s both have that execution: give --tenant", f.tenant, r[0])
		}
		if r[8] != "" { // the breaker's row is no call, and its agent, if it names one, did nothing
			f.ended = &treeEnd{At: r[8], Reason: r[9]}
			continue
		}
		n := func(i int) int64 { v, _ := strconv.ParseInt(r[i], 10, 64); return v } // our own toString of an integer
		c := lineage.Call{AgentID: r[1], ParentAgentID: r[2], Depth: int32(n(3)), Calls: n(6), Unpriced: n(7)}
		if r[4] != "" {
			c.Branches = strings.Split(r[4], "\n")
		}
		if r[5] != "NULL" {
			usd, err := money.ParseUSD(r[5])
			if err != nil {
				return treeFacts{}, fmt.Errorf("ledger: %w", err)
			}
			c.Cost = usd
		}
		for _, id := range c.Branches {
			if _, seen := f.spent[id]; !seen {
				f.branches = append(f.branches, id)
			}
			f.spent[id] = f.spent[id].Add(c.Cost)
		}
		f.calls = append(f.calls, c)
	}
	return f, nil
}

// answer puts the tree together from what the ledger and what the stores say.
func (f treeFacts) answer(root string, known treeLimits) treeAnswer {
	t := lineage.Build(known.rootAgent, f.calls)
	total := t.Total()
	answer := treeAnswer{Root: root, Tenant: f.tenant, TotalUSD: total.Cost.String(), Calls: total.Calls, Unpriced: total.Unpriced,
		MaxCostUSD: known.max, Ended: f.ended, Agents: nodesOf(t.Roots), Branches: []treeBranch{}}
	for _, id := range f.branches {
		b := treeBranch{ID: id, SpentUSD: f.spent[id].String()}
		if limit, ok := known.branches[id]; ok {
			b.MaxCostUSD = &limit
		}
		answer.Branches = append(answer.Branches, b)
	}
	orphans := 0
	for _, n := range t.Nodes() {
		if n.Unplaced {
			orphans++
		}
	}
	if orphans > 0 {
		answer.NotKnown = append(answer.NotKnown, fmt.Sprintf("under which agent %d of them belong: the one that their calls name has no row, or is one of several of its name", orphans))
	}
	answer.NotKnown = append(answer.NotKnown, known.missing...)
	answer.NotKnown = append(answer.NotKnown, "agents and limits under which nothing was spent: no row of the ledger names them")
	return answer
}

func nodesOf(nodes []*lineage.Node) []treeNode {
	out := []treeNode{}
	for _, n := range nodes {
		out = append(out, treeNode{Agent: n.AgentID, Parent: n.ParentID, Depth: n.Depth, OwnUSD: n.Own.Cost.String(), SubtreeUSD: n.Subtree.Cost.String(),
			Calls: n.Own.Calls, Unpriced: n.Own.Unpriced, Branches: n.Begins, Silent: n.Silent, Orphan: n.Unplaced, Cycle: n.Cycle, Children: nodesOf(n.Children)})
	}
	return out
}

func (t treeAnswer) print(out io.Writer) {
	fmt.Fprintf(out, "%s of %s: $%s in %d calls%s", t.Root, t.Tenant, t.TotalUSD, t.Calls, unpricedText(t.Unpriced))
	if t.MaxCostUSD != nil {
		fmt.Fprintf(out, ", limit $%s", *t.MaxCostUSD)
	}
	fmt.Fprintln(out)
	if t.Ended != nil {
		fmt.Fprintf(out, "  ended by the breaker at %s: %s\n", t.Ended.At, t.Ended.Reason)
	}
	for _, n := range t.Agents {
		t.printNode(out, n, 0)
	}
	for _, text := range t.NotKnown {
		fmt.Fprintf(out, "not known: %s\n", text)
	}
}

func (t treeAnswer) printNode(out io.Writer, n treeNode, depth int) {
	fmt.Fprintf(out, "%s%s: own $%s in %d calls%s, subtree $%s", strings.Repeat("  ", depth+1), n.Agent, n.OwnUSD, n.Calls, unpricedText(n.Unpriced), n.SubtreeUSD)
	for _, b := range t.Branches {
		for _, id := range n.Branches {
			if id != b.ID {
				continue
			}
			limit := "a limit that is not known"
			if b.MaxCostUSD != nil {
				limit = "$" + *b.MaxCostUSD
			}
			fmt.Fprintf(out, "; branch %s: $%s of %s", b.ID, b.SpentUSD, limit)
		}
	}
	if n.Silent {
		fmt.Fprint(out, " (known by those that it started)")
	}
	switch {
	case n.Orphan && n.Parent != "":
		fmt.Fprintf(out, " (started by one of several named %s)", n.Parent)
	case n.Orphan:
		fmt.Fprint(out, " (who started it is not known)")
	case n.Cycle:
		fmt.Fprint(out, " (its parents lead back to it)")
	}
	fmt.Fprintln(out)
	for _, child := range n.Children {
		t.printNode(out, child, depth+1)
	}
}

func unpricedText(n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d unpriced)", n)
}
