package admission

import (
	"net/url"
	"testing"

	"github.com/weir-project/weir/pkg/identity"
)

// Goal: a limit in a query holds or the request is refused; none is left out because it cannot be read.
func TestParametersAreStrict(t *testing.T) {
	for query, field := range map[string]string{
		"max_cost_usd=1;":                 "", // net/url leaves out what has a semicolon
		"agent_id=a&max_cost_usd=%zz":     "",
		"max_cost_usd=1&max_cost_usd=100": "max_cost_usd",
		"max_cost=1":                      "max_cost",
		"max_cost_usd=one":                "max_cost_usd",
		"max_cost_usd=%2B1":               "max_cost_usd",
		"max_depth=1.5":                   "max_depth",
		"max_depth=%2B3":                  "max_depth",
	} {
		if req, p := webhookRequest(identity.Webhook{User: "u", Event: "e"}, &url.URL{RawQuery: query}); p == nil || p.Status != 400 || p.Field != field {
			t.Errorf("%s: %+v, %+v", query, req, p)
		}
	}
	req, p := webhookRequest(identity.Webhook{User: "u", Event: "e"}, &url.URL{RawQuery: "max_cost_usd=0.5&cost_center=a%2Db&max_depth=3"})
	if p != nil || req.MaxCostUSD.String() != "0.5" || req.CostCenter != "a-b" || *req.MaxDepth != 3 || req.AgentID != "u" || req.RootExecutionID != "e" {
		t.Errorf("%+v, %+v", req, p)
	}
	if _, p := parameters(&url.URL{RawQuery: "nope=1"}, "agent_id"); p == nil || p.Field != "nope" {
		t.Errorf("%+v", p)
	}
}
