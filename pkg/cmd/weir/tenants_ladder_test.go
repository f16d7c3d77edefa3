package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/pricing"
	"github.com/weir-project/weir/pkg/domain/usage"
)

const ladderPlan = `plans:
  p:
    limits: {concurrency: 1}
    ceilings: {minute_usd: 1, day_usd: 1, month_usd: 1}
    ladder: {thresholds: [40, 70, 90], semantic_threshold: 0.9, saving_models: {openai/big: small, big: smal}, language: es, texts: {es: {cut: Basta.}}}
tenants: [`

// What the tenants file says of the ladder is shown under the same names.
func TestShowLadder(t *testing.T) {
	c := parseTenants(t, ladderPlan+"{id: a, plan: p}]").Contracts["a"]
	view, err := json.Marshal(ladderOf(c))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"thresholds":[40,70,90],"semantic_threshold":"0.9","saving_models":{"big":"smal","openai/big":"small"},"language":"es","texts":{"es":{"cut":"Basta."}}}`
	if string(view) != want || ladderOf(c).short() != "40/70/90 (2 cheaper)" {
		t.Errorf("%s, %s", view, ladderOf(c).short())
	}
	bare := parseTenants(t, "tenants: ["+oneTenant+"]").Contracts["acme"]
	if view, err := json.Marshal(ladderOf(bare)); err != nil || string(view) != `{"thresholds":[50,80,100],"language":"en"}` {
		t.Errorf("%s, %v", view, err)
	}
}

// A cheaper model that is misspelt, or another provider's, is told of once, with the tenants whose plan names it.
func TestUnpricedSavings(t *testing.T) {
	rate, err := money.ParseDecimal("0.01")
	if err != nil {
		t.Fatal(err)
	}
	v, err := pricing.Version{Provider: "openai", Model: "small", Mode: "chat", Currency: "USD", EffectiveFrom: time.Unix(0, 0), PublishedAt: time.Unix(0, 0), Source: "test",
		Rates: []pricing.Rate{{Meter: usage.Input, USDPerUnit: rate}}}.Seal()
	if err != nil {
		t.Fatal(err)
	}
	book := pricing.NewBook(pricing.History{Provider: "openai", Model: "small", Versions: []pricing.Version{v}})
	var ids []string
	for i := range 5 {
		ids = append(ids, fmt.Sprintf("{id: t%d, plan: p}", i))
	}
	ids = append(ids, "{id: other, plan: p, ladder: {saving_models: {big: small, anthropic/big: small, openai/big: ''}}}")
	file := parseTenants(t, ladderPlan+strings.Join(ids, ", ")+"]")
	got := unpricedSavings(file, book, time.Now())
	want := []string{`"smal", the saving model of "big", has no price and is not granted: tenant t0, t1, t2 and 2 more`,
		`"small", the saving model of "anthropic/big", has no price and is not granted: tenant other`}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got %q", got)
	}
	if got := unpricedSavings(file, pricing.NewBook(), time.Now()); len(got) != 1 || !strings.HasPrefix(got[0], "no prices are published yet") {
		t.Errorf("without any price: %q", got)
	}
}
