package main

import (
	"fmt"
	"io"

	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/domain/window"
)

// scopeView is an entry of scopes under the names of the tenants file: one of the three names is set.
type scopeView struct {
	CostCenter string       `json:"cost_center,omitempty"`
	Agent      string       `json:"agent,omitempty"`
	APIKey     string       `json:"api_key,omitempty"`
	Ceilings   ceilingsView `json:"ceilings"`
}

// ceilingsView leaves out what has no ceiling.
type ceilingsView struct {
	MinuteUSD string `json:"minute_usd,omitempty"`
	DayUSD    string `json:"day_usd,omitempty"`
	MonthUSD  string `json:"month_usd,omitempty"`
}

func scopesOf(c tenant.Contract) []scopeView {
	out := []scopeView{}
	for _, s := range c.Scopes {
		v := scopeView{Ceilings: ceilingsView{ceiling(s.Ceilings.Minute), ceiling(s.Ceilings.Day), ceiling(s.Ceilings.Month)}}
		switch s.Kind {
		case window.CostCenter:
			v.CostCenter = s.ID
		case window.Agent:
			v.Agent = s.ID
		case window.APIKey:
			v.APIKey = s.ID
		}
		out = append(out, v)
	}
	return out
}

func ceiling(n money.Nano) string {
	if n == 0 {
		return ""
	}
	return n.USD().String()
}

// printScopes is a second table under the tenants', where any has scopes.
func printScopes(w io.Writer, views []tenantView) {
	head := "\nTENANT\tSCOPE\tMINUTE\tDAY\tMONTH\n"
	for _, v := range views {
		for _, s := range v.Scopes {
			name := "cost_center " + s.CostCenter
			switch {
			case s.Agent != "":
				name = "agent " + s.Agent
			case s.APIKey != "":
				name = "api_key " + s.APIKey
			}
			fmt.Fprintf(w, "%s%s\t%s\t%s\t%s\t%s\n", head, v.ID, name, dollars(s.Ceilings.MinuteUSD), dollars(s.Ceilings.DayUSD), dollars(s.Ceilings.MonthUSD))
			head = ""
		}
	}
}

func dollars(amount string) string {
	if amount == "" {
		return "none"
	}
	return "$" + amount
}
