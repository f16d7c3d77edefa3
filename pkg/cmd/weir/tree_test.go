package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// treeRow is a row as ClickHouse gives it to tree: agent, parent, depth, branches, USD.
func treeRow(agent, parent, depth, branches, usd string) []string {
	return []string{"acme", agent, parent, depth, strings.ReplaceAll(branches, "+", "\n"), usd, "1", "0", "", ""}
}

func TestTreeOfRows(t *testing.T) {
	f, err := readTree([][]string{
		treeRow("enricher", "middle", "2", "b_1", "5"),
		treeRow("lead", "", "0", "", "1"),
		treeRow("writer", "lead", "1", "", "2"),
		treeRow("writer", "lead", "1", "b_2", "4"),
		{"acme", "lead", "", "0", "", "NULL", "0", "0", "2026-11-30T10:00:00Z", "cost"},
	})
	if err != nil {
		t.Fatal(err)
	}
	limit := "3"
	answer := f.answer("x1", treeLimits{rootAgent: "lead", max: &limit, branches: map[string]string{"b_1": "6"}, missing: []string{"the limit of b_2"}})
	var out bytes.Buffer
	answer.print(&out)
	want := `x1 of acme: $12 in 4 calls, limit $3
  ended by the breaker at 2026-11-30T10:00:00Z: cost
  lead: own $1 in 1 calls, subtree $12
    middle: own $0 in 0 calls, subtree $5 (known by those that it started)
      enricher: own $5 in 1 calls, subtree $5; branch b_1: $5 of $6
    writer: own $2 in 1 calls, subtree $2
    writer: own $4 in 1 calls, subtree $4; branch b_2: $4 of a limit that is not known
not known: the limit of b_2
not known: agents and limits under which nothing was spent: no row of the ledger names them
`
	if out.String() != want {
		t.Errorf("%s\nwant\n%s", out.String(), want)
	}
	if len(answer.Agents) != 1 || !answer.Agents[0].Children[0].Silent || len(answer.Branches) != 2 || answer.Branches[1].MaxCostUSD != nil {
		t.Errorf("%+v", answer)
	}
}

// A termination in nobody's name is no agent "unassigned", and an execution that has nothing else is still shown.
func TestTreeOfAnEndAlone(t *testing.T) {
	f, err := readTree([][]string{{"acme", "", "", "0", "", "NULL", "0", "0", "2026-11-30T10:00:00Z", "revoked"}})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	f.answer("x1", treeLimits{}).print(&out)
	if got := out.String(); strings.Contains(got, "unassigned") || !strings.Contains(got, "ended by the breaker") || !strings.HasPrefix(got, "x1 of acme: $0 in 0 calls\n") {
		t.Errorf("%s", got)
	}
}

// An agent whose place is not known says so, and its cost is in its root's subtree all the same.
func TestTreeOfAnOrphan(t *testing.T) {
	f, err := readTree([][]string{treeRow("deep", "unseen", "3", "", "5"), treeRow("lead", "", "0", "", "1")})
	if err != nil {
		t.Fatal(err)
	}
	answer := f.answer("x1", treeLimits{})
	if len(answer.Agents) != 1 || answer.Agents[0].SubtreeUSD != "6" || !answer.Agents[0].Children[0].Orphan || !strings.HasPrefix(answer.NotKnown[0], "under which agent 1") {
		t.Errorf("%+v", answer)
	}
	two := append([][]string{treeRow("a", "", "0", "", "1")}, []string{"beta", "a", "", "0", "", "1", "1", "0", "", ""})
	var coded codedError
	if _, err := readTree(two); !errors.As(err, &coded) || coded.code != exitUsage {
		t.Errorf("two tenants: %v", err)
	}
}
