package admission

import (
	"bytes"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/catalog"
	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/pricing"
	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/domain/usage"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/identity"
	"github.com/weir-project/weir/pkg/pgstore"
)

// usualSettle is what a provider's client sends, without the text.
const usualSettle = `{"usage":{"prompt_tokens":880,"completion_tokens":210,"total_tokens":1090,"prompt_tokens_details":{"cached_tokens":128,"audio_tokens":0},` +
	`"completion_tokens_details":{"reasoning_tokens":64,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}},` +
	`"api":"chat.completions","status":"SUCCESS"}`

// priced is a service that knows one model and one tenant, and has no stores.
func priced(t testing.TB) *Service {
	t.Helper()
	bad := func(topic, key string, err error) { t.Errorf("%s %s: %v", topic, key, err) }
	s := &Service{catalogs: &catalogs{tenants: catalog.NewTenants(bad), prices: catalog.NewPrices(bad)}}
	since := time.Unix(1_700_000_000, 0).UTC()
	v, err := pricing.Version{Provider: "openai", Model: "gpt-4o", Mode: "chat", Currency: "USD", EffectiveFrom: since, PublishedAt: since, Source: "test", MaxOutputTokens: 16384,
		Rates: []pricing.Rate{{Meter: usage.Input, USDPerUnit: number("0.0000025")}, {Meter: usage.CacheRead, USDPerUnit: number("0.00000125")},
			{Meter: usage.Output, USDPerUnit: number("0.00001")}}}.Seal()
	if err != nil {
		t.Fatal(err)
	}
	history := pricing.History{Provider: "openai", Model: "gpt-4o", Versions: []pricing.Version{v}}
	prices, err := catalog.EncodePrices(history)
	if err != nil {
		t.Fatal(err)
	}
	contract, err := catalog.EncodeTenant(tenant.History{ID: "acme", Versions: []tenant.Contract{{EffectiveFrom: since, PublishedAt: since, Plan: "pro", Count: tenant.CountRaw,
		Month: tenant.MonthCalendar, Ladder: tenant.DefaultLadder(), Ceilings: tenant.Ceilings{Minute: 1 << 50, Day: 1 << 50, Month: 1 << 50}, Limits: tenant.Limits{Concurrency: 9}}}})
	if err != nil {
		t.Fatal(err)
	}
	name := catalog.PriceKey(history)
	for _, err := range []error{s.catalogs.prices.Apply(bus.NewRecord(topics.CatalogPrices, name, []byte(name), prices)),
		s.catalogs.tenants.Apply(bus.NewRecord(topics.CatalogTenants, "acme", []byte("acme"), contract))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if s.cfg.Secret, err = identity.NewSecret(bytes.Repeat([]byte("k"), 32)); err != nil {
		t.Fatal(err)
	}
	return s
}

// usualHold is what a reservation of that model has left in Redis.
func usualHold() budgetstore.Hold {
	at := time.Date(2026, 11, 30, 23, 59, 59, 123456000, time.UTC)
	held := admit.Estimate{Nanos: 5_250_000, InputTokens: 900, OutputTokens: 300}
	c := call{Provider: "openai", Model: "gpt-4o", PriceVersion: "pv-00112233445566778899aabbccddeeff", EstimateUSD: held.Nanos.USD(),
		Meters: map[string]money.Decimal{"input_tokens": money.NewDecimal(900), "output_tokens": money.NewDecimal(300)},
		Effect: "read", Root: "root-1", Agent: "agent-1", CostCenter: "bench", Depth: 1, APIKey: "k_0123456789", Plan: 1_700_000_000_000_000_000}
	return budgetstore.Hold{ID: "call-1-2-3", Held: held, Answer: admit.Answer{ReservedAt: at, Reserved: held}, Context: c.encode()}
}

// decideSettle is a settle but for its stores: all that is done between the request's bytes, the hold and the transaction.
func (s *Service) decideSettle(tb testing.TB, body []byte, h budgetstore.Hold, now time.Time) {
	var req settleRequest
	if p := decodeStrict(body, &req); p != nil {
		tb.Fatal(p)
	}
	if p := first(checkShape("id", h.ID), req.check(), ofTenant("acme", req.Traceparent, req.Tracestate)); p != nil {
		tb.Fatal(p)
	}
	subj, err := subjectOf(budgetstore.Tenant{ID: "acme", Epoch: 4_000_000_000_000_007}, h)
	if err != nil {
		tb.Fatal(err)
	}
	e := ending{req: req, subj: *subj, now: now}
	s.grow(&e.subj)
	contract := s.catalogs.tenants.InForce("acme", e.subj.reservedAt)
	if contract == nil {
		tb.Fatal("no contract")
	}
	var p *Problem
	if e.charge, p = chargeFor(&e.req, &e.subj, s.catalogs.prices.Book(), contract); p != nil {
		tb.Fatal(p)
	}
	e.fingerprint = e.charge.fingerprint(&e.req, &e.subj)
	if _, _, p := e.first(s.cfg.Secret, pgstore.OwnDirect); p != nil {
		tb.Fatal(p)
	}
}

// BenchmarkSettle is what a settle costs beside net/http and its stores.
func BenchmarkSettle(b *testing.B) {
	s, h, now := priced(b), usualHold(), time.Date(2026, 12, 1, 0, 0, 1, 0, time.UTC)
	b.ReportAllocs()
	for b.Loop() {
		s.decideSettle(b, []byte(usualSettle), h, now)
	}
}
