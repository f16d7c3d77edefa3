package lineage

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"
)

const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func TestCases(t *testing.T) {
	raw, err := os.ReadFile("testdata/trace_context.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Cases []struct {
			ID          string
			Sent        struct{ Traceparent, Tracestate string }
			TokenTenant string         `json:"token_tenant"`
			Read        map[string]any `json:"read"`
		}
	}
	if err := json.Unmarshal(raw, &file); err != nil || len(file.Cases) != 4 {
		t.Fatalf("%d cases, %v", len(file.Cases), err)
	}
	for _, c := range file.Cases {
		got := Read(c.Sent.Traceparent, c.Sent.Tracestate)
		fields := map[string]any{"trace_id": got.TraceID, "span_id": got.SpanID, "sampled": got.Sampled, "tenant_id": got.TenantID,
			"root_execution_id": got.RootExecutionID, "parent_agent_id": got.ParentAgentID, "agent_id": got.AgentID, "cost_center": got.CostCenter,
			"skipped_members": float64(got.SkippedMembers), "quarantined": got.Contradicts(c.TokenTenant)}
		for name, want := range c.Read {
			if want == nil {
				want = ""
			}
			if fields[name] != want {
				t.Errorf("%s: %s = %v, want %v", c.ID, name, fields[name], want)
			}
		}
	}
}

func TestRead(t *testing.T) {
	many := strings.Repeat("v=1,", 1) // the first of 40 different keys below
	for i := range 40 {
		many += "k" + string(rune('a'+i%26)) + string(rune('a'+i/26)) + "=1,"
	}
	for name, c := range map[string]struct {
		parent, state string
		want          Context
	}{
		"compact":            {parent, "dd=s:1,weir=t:acme;r:x:1;p:lead;c:a1;k:sales%20ops", Context{TenantID: "acme", RootExecutionID: "x:1", ParentAgentID: "lead", AgentID: "a1", CostCenter: "sales ops", Foreign: []string{"dd=s:1"}}},
		"compact, alias":     {parent, "acct=r:x;z:9;;p", Context{RootExecutionID: "x"}},
		"duplicates":         {parent, "tenant_id=a,tenant_id=b,weir=t:c", Context{TenantID: "a", Duplicates: 2}},
		"upper case key":     {parent, "Tenant_ID=a", Context{SkippedMembers: 1}},
		"illegal values":     {parent, "cost_center=,current_agent_id=a==,root_execution_id=\x01", Context{SkippedMembers: 3}},
		"not really percent": {parent, "cost_center=100%", Context{CostCenter: "100%"}},
		"control by percent": {parent, "cost_center=a%00b", Context{SkippedMembers: 1}},
		"later version":      {"cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-extra", "tenant_id=a", Context{TenantID: "a"}},
		"too many":           {parent, many + "tenant_id=late", Context{SkippedMembers: 10}},
	} {
		got := Read(c.parent, c.state)
		if name == "too many" {
			got.Foreign = nil
		}
		c.want.TraceID, c.want.SpanID, c.want.Sampled = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", true
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s:\n got %+v\nwant %+v", name, got, c.want)
		}
	}
	for _, bad := range []string{"", "00", "ff" + parent[2:], parent + "-more", strings.ToUpper(parent), parent[:53] + "zz", strings.Replace(parent, "00f067aa0ba902b7", "0000000000000000", 1), "cc" + parent[2:] + "x"} {
		if got := Read(bad, "tenant_id=a"); !reflect.DeepEqual(got, Context{}) {
			t.Errorf("traceparent %q gave %+v", bad, got)
		}
	}
	if got := Read(parent, strings.Repeat("x", maxState+1)); got.SkippedMembers != 1 {
		t.Errorf("oversized tracestate: %+v", got)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(parent, "tenant_id=tenant_prod_99a,root_execution_id=exec_888f,parent_agent_id=agent_lead_gen,current_agent_id=agent_vector_search,cost_center=sales_ops")
	f.Add(parent, "rojo=00f067aa0ba902b7, ,root_execution_id=exec_888f,BAD KEY=1,current_agent_id=a1")
	f.Add(parent, "weir=t:a;r:%C3%A9;p:;c:%;k:%zz,weir=t:b")
	f.Add("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x", "a=b")
	f.Fuzz(func(t *testing.T, tp, ts string) {
		c := Read(tp, ts)
		again := Read(c.Emit())
		c.SkippedMembers, c.Duplicates = 0, 0
		if len(c.Foreign) > 27 {
			c.Foreign, again.Foreign = nil, nil // there may be no room for the last ones
		}
		for _, id := range []*string{&c.TenantID, &c.RootExecutionID, &c.ParentAgentID, &c.AgentID, &c.CostCenter} {
			if len(escape(*id)) > maxValue {
				*id = "" // cannot be emitted as a valid member
			}
		}
		if !reflect.DeepEqual(c, again) {
			t.Fatalf("%q %q\nread %+v\nback %+v", tp, ts, c, again)
		}
	})
}
