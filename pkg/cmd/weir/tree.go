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
	Agent      string     `json:"agent_id"`
	OwnUSD     string     `json:"own_usd"`
	SubtreeUSD string     `json:"subtree_usd"`
	Calls      int64      `json:"calls"`
	Unpriced   int64      `json:"unpriced,omitempty"`
	Orphan     bool       `json:"orphan,omitempty"`
	Cycle      bool       `json:"cycle,omitempty"`
	Children   []treeNode `json:"children"`
}

// treeAnswer is a whole execution.
type treeAnswer struct {
	Root     string     `json:"root_execution_id"`
	Tenant   string     `json:"tenant_id"`
	TotalUSD string     `json:"total_usd"`
	Calls    int64      `json:"calls"`
	Agents   []treeNode `json:"agents"`
}

func (a *app) tree(ctx context.Context, out io.Writer, tenant, root string) error {
	db, err := a.clickhouse(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	rows, err := db.Select(ctx, `SELECT tenant_id, agent_id, parent_agent_id, toString(sum(raw_cost_usd)),
		toString(sum(multiIf(entry_kind = 'REVERSAL', -1, entry_kind IN ('USAGE', 'UNSETTLED'), 1, 0))),
		toString(sum(if(has(flags, 'unpriced'), if(entry_kind = 'REVERSAL', -1, 1), 0)))
		FROM agent_cost_ledger WHERE root_execution_id = ? AND (? = '' OR tenant_id = ?)
		GROUP BY tenant_id, agent_id, parent_agent_id ORDER BY tenant_id, agent_id, parent_agent_id LIMIT 100000`, root, tenant, tenant)
	if err != nil {
		return away("%w", err)
	}
	if len(rows) == 0 {
		return no("no execution %q in the ledger", root)
	}
	calls, owner, err := treeCalls(rows)
	if err != nil {
		return err
	}
	t := lineage.Build(calls)
	total := t.Total()
	answer := treeAnswer{Root: root, Tenant: owner, TotalUSD: total.Cost.String(), Calls: total.Calls, Agents: []treeNode{}}
	for _, id := range t.Roots() {
		answer.Agents = append(answer.Agents, nodeOf(t, id))
	}
	if a.json {
		return printJSON(out, answer)
	}
	fmt.Fprintf(out, "%s of %s: $%s in %d calls\n", root, owner, answer.TotalUSD, answer.Calls)
	for _, n := range answer.Agents {
		n.print(out, 0)
	}
	return nil
}

func treeCalls(rows [][]string) ([]lineage.Call, string, error) {
	owner := rows[0][0]
	var calls []lineage.Call
	for _, r := range rows {
		if r[0] != owner {
			return nil, "", misuse("tenants %s and %s both have that execution: give --tenant", owner, r[0])
		}
		c := lineage.Call{AgentID: r[1], ParentAgentID: r[2]}
		if r[3] != "NULL" {
			usd, err := money.ParseUSD(r[3])
			if err != nil {
				return nil, "", fmt.Errorf("ledger: %w", err)
			}
			c.Cost = usd
		}
		c.Calls, _ = strconv.ParseInt(r[4], 10, 64) // our own toString of an integer
		c.Unpriced, _ = strconv.ParseInt(r[5], 10, 64)
		calls = append(calls, c)
	}
	return calls, owner, nil
}

func nodeOf(t lineage.Tree, id string) treeNode {
	n, _ := t.Node(id)
	out := treeNode{
		Agent: id, OwnUSD: n.Own.Cost.String(), SubtreeUSD: n.Subtree.Cost.String(), Calls: n.Own.Calls,
		Unpriced: n.Own.Unpriced, Orphan: n.Orphan, Cycle: n.Cycle, Children: []treeNode{},
	}
	for _, child := range n.Children {
		out.Children = append(out.Children, nodeOf(t, child))
	}
	return out
}

func (n treeNode) print(out io.Writer, depth int) {
	fmt.Fprintf(out, "%s%s: own $%s in %d calls, subtree $%s\n", strings.Repeat("  ", depth+1), n.Agent, n.OwnUSD, n.Calls, n.SubtreeUSD)
	for _, child := range n.Children {
		child.print(out, depth+1)
	}
}
