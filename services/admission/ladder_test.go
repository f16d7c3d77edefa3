package admission

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/catalog"
	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/ladder"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/pricing"
	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/domain/usage"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/identity"
	"github.com/weir-project/weir/pkg/usageevent"
)

// model is a price of so many cents a token of any kind.
func model(name, cents string, maxIn, maxOut int64) pricing.Version {
	rate := number("0.01").Mul(number(cents))
	v, _ := pricing.Version{Provider: "openai", Model: name, Mode: "chat", Currency: "USD", EffectiveFrom: time.Unix(0, 0), PublishedAt: time.Unix(0, 0), Source: "test",
		MaxInputTokens: maxIn, MaxOutputTokens: maxOut, Rates: []pricing.Rate{{Meter: usage.Input, USDPerUnit: rate}, {Meter: usage.Output, USDPerUnit: rate}}}.Seal()
	return v
}

// pricedService knows prices and kills, and nothing else.
func pricedService(t testing.TB, models ...pricing.Version) *Service {
	t.Helper()
	bad := func(topic, key string, err error) { t.Errorf("%s %s: %v", topic, key, err) }
	s := &Service{deps: Deps{Now: time.Now}, metrics: newMetrics(prometheus.NewRegistry()), kills: newKillSwitch(bad), catalogs: &catalogs{prices: catalog.NewPrices(bad), tenants: catalog.NewTenants(bad)}}
	for _, v := range models {
		h := pricing.History{Provider: v.Provider, Model: v.Model, Versions: []pricing.Version{v}}
		value, err := catalog.EncodePrices(h)
		if err == nil {
			err = s.catalogs.prices.Apply(bus.NewRecord(topics.CatalogPrices, catalog.PriceKey(h), []byte(catalog.PriceKey(h)), value))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// Goal: the cheaper model is quoted beside the one asked for where it can stand in for the call, and else it is left out
// and counted.
func TestSavingQuote(t *testing.T) {
	for _, c := range []struct {
		name     string
		plan     map[string]string
		asked    string
		estimate quantities
		saving   string // the estimate in dollars, "" without one
		why      string
	}{
		{"named", map[string]string{"big": "small"}, "big", quantities{"input_tokens": "10", "max_output_tokens": "20"}, "0.3", ""},
		{"named with its provider", map[string]string{"openai/big": "small", "big": "dear"}, "big", quantities{"input_tokens": "10", "max_output_tokens": "20"}, "0.3", ""},
		{"named, asked for with a date", map[string]string{"big": "small"}, "big-2026-08-06", quantities{"input_tokens": "10", "max_output_tokens": "20"}, "0.3", ""},
		{"as cheap", map[string]string{"big": "twin"}, "big", quantities{"input_tokens": "10", "max_output_tokens": "20"}, "0.6", ""},
		{"no output named: each its own maximum", map[string]string{"big": "small"}, "big", quantities{"input_tokens": "10"}, "1.1", ""},
		{"not named", map[string]string{"other": "small"}, "big", quantities{"input_tokens": "10"}, "", ""},
		{"another provider's", map[string]string{"azure/big": "small"}, "big", quantities{"input_tokens": "10"}, "", ""},
		{"itself", map[string]string{"big": "big"}, "big", quantities{"input_tokens": "10"}, "", ""},
		{"stopped", map[string]string{"big": "stopped"}, "big", quantities{"input_tokens": "10"}, "", unusableKilled},
		{"without a price", map[string]string{"big": "unheard-of"}, "big", quantities{"input_tokens": "10"}, "", unusableUnpriced},
		{"without a price for a meter", map[string]string{"big": "small"}, "big", quantities{"input_tokens": "10", "search_units": "1"}, "", unusableUnpriced},
		{"writes less", map[string]string{"big": "small"}, "big", quantities{"input_tokens": "10", "max_output_tokens": "101"}, "", unusableTooSmall},
		{"takes a shorter prompt", map[string]string{"big": "small"}, "big", quantities{"input_tokens": "1001", "max_output_tokens": "1"}, "", unusableTooSmall},
		{"dearer", map[string]string{"big": "dear"}, "big", quantities{"input_tokens": "10", "max_output_tokens": "20"}, "", unusableDearer},
	} {
		big := model("big", "2", 0, 200)
		big.Rates = append(big.Rates, pricing.Rate{Meter: usage.Meter("search_units"), USDPerUnit: number("1")})
		big, err := big.Seal()
		if err != nil {
			t.Fatal(err)
		}
		s := pricedService(t, big, model("small", "1", 1000, 100), model("twin", "2", 0, 0), model("dear", "3", 0, 0), model("stopped", "1", 0, 200))
		s.kills.known.Merge(admit.Kill{Scope: admit.KillModel("stopped"), Version: 1, On: true})
		k := roomy()
		k.Actions.SavingModels = c.plan
		q := prepared{now: time.Now()}
		err = s.quote(&caller{tenant: "acme", contract: k}, &reserveRequest{Provider: "openai", Model: c.asked, Estimate: c.estimate}, &identity.Execution{}, &q)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if (q.request.Saving == nil) != (c.saving == "") || (q.request.Saving == nil) != (q.asked.Saving == nil) || q.asked.Model != c.asked {
			t.Errorf("%s: %+v", c.name, q)
			continue
		}
		if q.request.Saving != nil && (q.request.Saving.Nanos.USD().String() != c.saving || q.asked.Saving.EstimateUSD.String() != c.saving || q.request.Saving.Nanos > q.request.Estimate.Nanos || q.request.Saving.InputTokens != 10) {
			t.Errorf("%s: %+v at %+v", c.name, q.asked.Saving, q.request.Saving)
		}
		for _, why := range []string{unusableKilled, unusableUnpriced, unusableTooSmall, unusableDearer} {
			want := 0.0
			if why == c.why {
				want = 1
			}
			if n := testutil.ToFloat64(s.metrics.unusable.WithLabelValues(why)); n != want {
				t.Errorf("%s: %v counted as %s", c.name, n, why)
			}
		}
	}
}

// Goal: the answer on every rung, with and without a cheaper model, in both languages: model, mode, cache and message; the
// receipt and the row know only what was granted.
func TestAnswerOnEveryRung(t *testing.T) {
	secret, err := identity.NewSecret([]byte(strings.Repeat("s", 32)))
	if err != nil {
		t.Fatal(err)
	}
	k := plan()
	k.Actions = tenant.Actions{SemanticThreshold: "0.95", SavingModels: map[string]string{"big": "small"},
		Texts: map[ladder.Language]ladder.Texts{ladder.Spanish: {Caching: "Vamos con calma."}}}
	modes := map[ladder.Rung][2]string{0: {"Normal mode.", "Modo normal."}, 1: {"Caching mode", "Vamos con calma."}, 2: {"Saving mode", "Modo de ahorro"}, 3: {"Read-only mode", "Modo de solo lectura"}}
	for rung := ladder.Normal; rung <= ladder.ReadOnly; rung++ {
		for _, cheaper := range []bool{false, true} {
			for i, language := range ladder.Languages() {
				saving := cheaper && rung >= ladder.Saving
				asked := call{Provider: "openai", Model: "big", PriceVersion: "pb", EstimateUSD: dollars("0.6"), Meters: map[string]money.Decimal{"output_tokens": number("30")}, Language: language}
				if cheaper {
					asked.Saving = &quoted{Model: "small", PriceVersion: "ps", EstimateUSD: dollars("0.3")}
				}
				kept := asked.encode()
				a := admit.Answer{ReservedAt: time.Unix(1, 0), Rung: rung, Saving: saving, DayUsed: money.Nano(rung) * 1_300_000_000, DayCeiling: 4_000_000_000}
				h := hold{Tenant: "acme", ID: "r", Answer: a}
				if h.call, h.rawCall, err = grantedCall(kept, a); err != nil {
					t.Fatal(err)
				}
				got, err := h.answer(secret, k)
				if err != nil {
					t.Fatal(err)
				}
				name := fmt.Sprintf("rung %d, cheaper %v, %s", rung, cheaper, language)
				wantModel, wantPrice := "big", "0.6"
				if saving {
					wantModel, wantPrice = "small", "0.3"
				}
				if got.Model != wantModel || got.Rung != rung || got.Mode != rung.Mode() || !strings.HasPrefix(got.Message, modes[rung][i]) || !strings.Contains(got.Message, "50") ||
					!strings.Contains(got.Message, "80") || !strings.Contains(got.Message, "100") || got.Cache.Exact != (rung >= 1) || (got.Cache.SemanticThreshold != nil) != (rung >= 1) {
					t.Errorf("%s: %+v", name, got)
				}
				if mentions := strings.Contains(got.Message, "model"); rung >= ladder.Saving && mentions != saving {
					t.Errorf("%s: %q", name, got.Message)
				}
				receipt, err := identity.VerifyReceipt(secret, got.Receipt)
				if err != nil {
					t.Fatal(err)
				}
				granted, err := decodeCall(receipt.Call)
				if err != nil || granted.Saving != nil || granted.Model != wantModel || granted.EstimateUSD.String() != wantPrice || (granted.Asked == "big") != saving {
					t.Errorf("%s: the receipt keeps %+v, %v", name, granted, err)
				}
			}
		}
	}
}

// Goal: what the ladder refuses is a 403 that is never to be retried, and tells the end user in the language asked for.
func TestLadderRefuses(t *testing.T) {
	c := caller{contract: softPlan("50"), language: ladder.Spanish}
	c.contract.Actions.UpgradeURL = "https://example.com/more"
	for _, w := range []struct {
		r       admit.Refusal
		status  int
		rung    ladder.Rung
		percent int64
		message string
		upgrade string
	}{
		{admit.Refusal{Code: admit.ToolDeferred, DayUsed: 3_200_000_000}, 403, 2, 80, "Esta acción no se ha hecho ni queda en cola: hay que repetirla cuando el presupuesto lo permita. Modo de ahorro: las acciones con efectos esperan.", ""},
		{admit.Refusal{Code: admit.ReadOnlyMode, DayUsed: 5_200_000_000}, 403, 3, 130, "Modo de solo lectura", ""},
		{admit.Refusal{Code: admit.TenantQuotaExceeded, Limit: admit.LimitDay, Window: 20261130, Used: 6_000_000_000, Asked: 1, Ceiling: 6_000_000_000, DayUsed: 6_000_000_000}, 429, 4, 150, "El presupuesto de hoy está agotado.", "https://example.com/more"},
	} {
		p := refused(w.r, c, time.UTC)
		if p.Status != w.status || p.RetryAfterMS != 0 || *p.Rung != w.rung || *p.PercentUsed != w.percent || !strings.HasPrefix(p.Message, w.message) || p.UpgradeURL != w.upgrade ||
			!strings.Contains(p.Message, "50, el 80 y el 100") {
			t.Errorf("%s: %+v", w.r.Code, p)
		}
	}
	if p := refused(admit.Refusal{Code: admit.RateLimited, Limit: admit.LimitRequests}, c, time.UTC); p.Rung != nil || p.Message != "" || p.PercentUsed != nil {
		t.Errorf("a rate says nothing about the ladder: %+v", p)
	}
}

// Goal: the language of Accept-Language (RFC 9110, section 12.5.4), where there are texts in it.
func TestLanguageOf(t *testing.T) {
	for header, want := range map[string]ladder.Language{
		"": "", "en": "en", "es": "es", "ES-mx": "es", "en-GB,en;q=0.9": "en", "fr-FR, es;q=0.8, en;q=0.7": "es", "es;q=0.5, en;q=0.75": "en", "en;q=0, es;q=0.001": "es",
		"de, fr": "", "*": "", "en;q=0": "", "es ; q=1.000": "es", "en;q=2, es;q=0.1": "es", "en;q=x": "", "es;level=1": "", "esperanto": "", "en, es": "en", ";;;,,": "", strings.Repeat("x,", maxLanguages) + "es": "", "es;q=0.1234": "",
	} {
		if got := languageOf(header); got != want {
			t.Errorf("%q: %q, want %q", header, got, want)
		}
	}
}

// Goal: no hold grows beyond its bound because a plan names a cheaper model: then the call has none.
func TestHoldStaysSmall(t *testing.T) {
	long := call{Provider: "openai", Model: "big", Meters: map[string]money.Decimal{}, Saving: &quoted{Model: strings.Repeat("s", maxName), Meters: map[string]money.Decimal{}}}
	for i := range maxEstimateMeters {
		long.Meters[fmt.Sprintf("meter_%d_%s", i, strings.Repeat("x", 40))] = number("123456789.123456789")
		long.Saving.Meters[fmt.Sprintf("meter_%d_%s", i, strings.Repeat("x", 40))] = number("123456789.123456789")
	}
	saving := &admit.Estimate{}
	kept, ok := long.keep(&saving)
	if !ok || len(kept) > budgetstore.MaxContext || saving != nil || long.Saving != nil {
		t.Errorf("%d bytes, ok %v, saving %v", len(kept), ok, saving)
	}
	usual := call{Provider: "openai", Model: "gpt-4o", PriceVersion: strings.Repeat("v", 16), EstimateUSD: dollars("0.01"), Meters: map[string]money.Decimal{"input_tokens": number("1000"), "output_tokens": number("500")},
		Root: "root-1", Agent: "agent-1", CostCenter: "sales"}
	without := len(usual.encode())
	usual.Saving = &quoted{Model: "gpt-4o-mini", PriceVersion: strings.Repeat("v", 16), EstimateUSD: dollars("0.0006")}
	if with := len(usual.encode()); with > without+120 || with > 512 {
		t.Errorf("a usual hold keeps %d bytes, %d without the cheaper model", with, without)
	}
}

// Goal: a repeat is told in the words of the plan that was in force at the first answer.
func TestRepeatKeepsItsPlan(t *testing.T) {
	s := pricedService(t)
	first, second := plan(), plan()
	first.Limits.Concurrency, first.Ceilings, first.Count, first.Month = 1, tenant.Ceilings{Minute: 1, Day: 1, Month: 1}, tenant.CountRaw, tenant.MonthCalendar
	*second = *first
	first.EffectiveFrom, second.EffectiveFrom = time.Unix(0, 0), time.Unix(1_800_000_000, 123)
	second.Ladder = [3]int32{10, 20, 30}
	value, err := catalog.EncodeTenant(tenant.History{ID: "acme", Versions: []tenant.Contract{*first, *second}})
	if err == nil {
		err = s.catalogs.tenants.Apply(bus.NewRecord(topics.CatalogTenants, "acme", []byte("acme"), value))
	}
	if err != nil {
		t.Fatal(err)
	}
	now := caller{tenant: "acme", contract: second}
	if got := s.contractOf(&now, planOf(first)); got.Ladder != first.Ladder {
		t.Errorf("the first: %v", got.Ladder)
	}
	if got := s.contractOf(&now, planOf(second)); got.Ladder != second.Ladder {
		t.Errorf("the second: %v", got.Ladder)
	}
	if got := s.contractOf(&caller{tenant: "acme", contract: first}, planOf(second)); got.Ladder != second.Ladder {
		t.Errorf("the second, to a caller of the first: %v", got.Ladder)
	}
}

// Goal: what a cache answered costs nothing, counts nothing, and is no estimate; the event says so.
func TestCacheHitIsFree(t *testing.T) {
	for _, kind := range []string{usageevent.CacheExact, usageevent.CacheSemantic} {
		req := settleRequest{CacheHit: kind}
		if p := req.check(); p != nil {
			t.Fatal(p)
		}
		got, p := chargeFor(&req, thirtyCents(), flatBook(), roomy())
		if p != nil || got.raw.String() != "0" || got.billed.String() != "0" || got.own != (admit.Estimate{}) || got.estimated || got.status != statusSuccess || fmt.Sprint(got.flags) != "[cache_hit]" {
			t.Errorf("%+v, %v", got, p)
		}
		ev, err := usageevent.Decode(usageevent.Encode(got.event(&req, thirtyCents(), "id", usageevent.OutcomeSettled, "direct", 0, time.Unix(1_700_000_000, 0))), nil)
		if err != nil || ev.Data.CacheHit != kind || ev.Data.Usage != nil || ev.Data.Reservation.OwnNanos != 0 {
			t.Errorf("%+v, %v", ev, err)
		}
		free, p := chargeFor(&settleRequest{Meters: quantities{"output_tokens": "0"}}, thirtyCents(), flatBook(), roomy())
		if p != nil || bytes.Equal(free.fingerprint(&settleRequest{}, thirtyCents()), got.fingerprint(&req, thirtyCents())) {
			t.Errorf("a cache hit and a call that used nothing are the same: %v", p)
		}
	}
	for name, req := range map[string]settleRequest{
		"of no kind":  {CacheHit: "lucky"},
		"with usage":  {CacheHit: "exact", Usage: json.RawMessage(`{"prompt_tokens":1}`)},
		"with meters": {CacheHit: "exact", Meters: quantities{"output_tokens": "0"}},
		"failed":      {CacheHit: "exact", Status: statusFailed},
		"partial":     {CacheHit: "semantic", Status: statusPartial},
	} {
		if p := req.check(); p == nil || p.Field != "cache_hit" || p.Code != admit.InvalidArgument {
			t.Errorf("%s: %v", name, p)
		}
	}
}

// Goal: a caller that never looked at the model granted, and says nothing of the one it used, is found out by the response:
// the dearer one is charged. The name of a cheaper one, or of one without a price, changes nothing.
func TestResponseNamesTheModel(t *testing.T) {
	book := pricing.NewBook()
	for _, v := range []pricing.Version{flat(), model("dear", "3", 0, 0), model("cheap", "0.5", 0, 0)} {
		book = book.With(pricing.History{Provider: "openai", Model: v.Model, Versions: []pricing.Version{v}})
	}
	for _, c := range []struct{ response, named, charged, cost string }{
		{"flat", "", "flat", "0.4"}, {"flat-2026-08-06", "", "flat", "0.4"}, {"dear", "", "dear", "1.2"}, {"dear-2026-08-06", "", "dear-2026-08-06", "1.2"},
		{"cheap", "", "flat", "0.4"}, {"unheard-of", "", "flat", "0.4"}, {"", "", "flat", "0.4"}, {"dear", "flat", "flat", "0.4"}, {"flat", "dear", "dear", "1.2"},
	} {
		req := settleRequest{API: "chat.completions", Model: c.named,
			Usage: json.RawMessage(`{"id":"c1","model":"` + c.response + `","usage":{"prompt_tokens":0,"completion_tokens":40,"total_tokens":40}}`)}
		got, p := chargeFor(&req, thirtyCents(), book, roomy())
		if p != nil || got.raw.String() != c.cost {
			t.Fatalf("%+v: %+v, %v", c, got, p)
		}
		ev := got.event(&req, thirtyCents(), "id", usageevent.OutcomeSettled, "direct", got.own.Nanos, time.Unix(1, 0))
		if dear := c.cost == "1.2"; ev.Data.Model != c.charged || (len(got.flags) == 1) != dear || (len(ev.Data.Reservation.Flags) == 1) != dear {
			t.Errorf("%+v: %s charged, flags %v", c, ev.Data.Model, got.flags)
		}
		if again, p := chargeFor(&req, thirtyCents(), flatBook(), roomy()); p != nil || c.named == "" && !bytes.Equal(again.fingerprint(&req, thirtyCents()), got.fingerprint(&req, thirtyCents())) {
			t.Errorf("%+v: the same settle is another once a price is known, %v", c, p)
		}
	}
}

// Goal: a dearer model than was granted is charged at its price and flagged, whether its usage is known or not; a cheaper one,
// the same by another name, and one without a price are not flagged.
func TestDearerModel(t *testing.T) {
	book := pricing.NewBook()
	for _, v := range []pricing.Version{flat(), model("dear", "3", 0, 0), model("cheap", "0.5", 0, 0)} {
		book = book.With(pricing.History{Provider: "openai", Model: v.Model, Versions: []pricing.Version{v}})
	}
	used := quantities{"output_tokens": "40"}
	for _, c := range []struct {
		name, model string
		meters      quantities
		cost        string // "" unpriced
		overage     string
		flagged     bool
	}{
		{"granted", "", used, "0.4", "0.1", false},
		{"granted, by name", "flat", used, "0.4", "0.1", false},
		{"granted, by a dated name", "flat-2026-08-06", used, "0.4", "0.1", false},
		{"dearer", "dear", used, "1.2", "0.9", true},
		{"cheaper", "cheap", used, "0.2", "0", false},
		{"unheard of", "unheard-of", used, "", "0", false},
		{"nothing used", "dear", quantities{"output_tokens": "0"}, "0", "0", false},
		{"estimated", "", nil, "0.3", "0", false},
		{"estimated, dearer", "dear", nil, "0.9", "0.6", true},
		{"estimated, cheaper", "cheap", nil, "0.3", "0", false},
		{"estimated, unheard of", "unheard-of", nil, "0.3", "0", false},
	} {
		req := settleRequest{Model: c.model, Meters: c.meters}
		got, p := chargeFor(&req, thirtyCents(), book, roomy())
		if p != nil {
			t.Fatalf("%s: %v", c.name, p)
		}
		cost := ""
		if got.raw != nil {
			cost = got.raw.String()
		}
		flagged := fmt.Sprint(got.flags) == "[dearer_model]"
		if cost != c.cost || got.overage.String() != c.overage || flagged != c.flagged || got.estimated != (c.meters == nil) {
			t.Errorf("%s: $%s, overage %s, flags %v, estimated %v", c.name, cost, got.overage, got.flags, got.estimated)
		}
		ev := got.event(&req, thirtyCents(), "id", usageevent.OutcomeSettled, "direct", got.own.Nanos, time.Unix(1, 0))
		if (len(ev.Data.Reservation.Flags) == 1) != c.flagged || got.estimated && ev.Data.Reservation.EstimateUSD.String() != c.cost {
			t.Errorf("%s: %+v", c.name, ev.Data.Reservation)
		}
	}
}
