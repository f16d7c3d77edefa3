package catalog

import (
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/tenantsfile"
)

func contracts(t *testing.T) map[string]tenant.Contract {
	t.Helper()
	f, err := tenantsfile.Parse([]byte(`
tenants:
  - id: acme
    limits: {requests_per_minute: 600, input_tokens_per_minute: 7, output_tokens_per_minute: 8, concurrency: 50, open_executions: 9}
    ceilings: {minute_usd: 1.000000001, day_usd: 100, month_usd: 1000}
    markup_percent: 12.5
    overrun_percent: 3
    soft: []
    month: rolling30
    ladder:
      thresholds: [10, 20, 30]
      semantic_threshold: 0.95
      saving_models: {openai/gpt-4o: gpt-4o-mini, o3: o4-mini}
      upgrade_url: https://example.com/more
      language: es
      texts: {en: {normal: a, caching: b, saving: c, read_only: d, cut: e}, es: {cut: f}}
    timezone: Europe/Budapest
    count: billed
    unknown_price: dearest
    execution: {max_cost_usd: 5.00, max_depth: 4, max_calls: 200}
    identities: {slack: [T1]}
    scopes:
      - {cost_center: research, ceilings: {minute_usd: 0.000000001}}
      - {agent: "*", ceilings: {day_usd: 5, month_usd: 50}}
      - {agent: trusted}
      - {api_key: k1, ceilings: {month_usd: 7}}
`))
	if err != nil {
		t.Fatal(err)
	}
	return f.Contracts
}

// A contract that was published before limits had a bound is still read, and allows as much as can be counted.
func TestLimitsBeyondTheBound(t *testing.T) {
	c := contracts(t)["acme"]
	c.Limits.Concurrency, c.Limits.InputTokensPerMinute, c.Execution.MaxCalls = tenant.MaxLimit+1, 1<<62, 1<<60
	value, err := EncodeTenant(tenant.History{ID: "acme", Versions: []tenant.Contract{c}})
	if err != nil {
		t.Fatal(err)
	}
	h, err := DecodeTenant(value)
	if err != nil {
		t.Fatal(err)
	}
	got := h.Versions[0]
	if got.Limits.Concurrency != tenant.MaxLimit || got.Limits.InputTokensPerMinute != tenant.MaxLimit || got.Execution.MaxCalls != tenant.MaxLimit ||
		got.Limits.RequestsPerMinute != 600 {
		t.Errorf("%+v %+v", got.Limits, got.Execution)
	}
}

// What a file says survives the way through the topic unchanged.
func TestTenantRoundTrip(t *testing.T) {
	c := contracts(t)["acme"]
	c.EffectiveFrom, c.PublishedAt = time.Unix(100, 0).UTC(), time.Unix(200, 0).UTC()
	removed := c
	removed.Removed, removed.EffectiveFrom = true, time.Unix(300, 0).UTC()
	value, err := EncodeTenant(tenant.History{ID: "acme", Versions: []tenant.Contract{c, removed}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeTenant(value)
	if err != nil {
		t.Fatal(err)
	}
	if a := got.Versions[0].Actions; !a.Equal(c.Actions) || a.Texts["es"].Cut != "f" || len(a.SavingModels) != 2 {
		t.Errorf("actions %+v", a)
	}
	if s := got.Versions[0].Scopes; len(s) != 4 || s[3].Ceilings.Minute != 1 || s[1].Limited() {
		t.Errorf("scopes %+v", s)
	}
	if !got.Versions[0].HoldsUnpriced() {
		t.Error("unknown_price is lost")
	}
	if len(got.Versions) != 2 || !got.Versions[0].Equal(c) || !got.Versions[1].Equal(removed) || !got.Versions[0].EffectiveFrom.Equal(c.EffectiveFrom) {
		t.Errorf("got %+v", got)
	}
}

// A bad record is reported and leaves the last good one; a tombstone deletes.
func TestTenantsKeepTheLastGood(t *testing.T) {
	value, err := EncodeTenant(tenant.History{ID: "acme", Versions: []tenant.Contract{contracts(t)["acme"]}})
	if err != nil {
		t.Fatal(err)
	}
	bad := 0
	tenants := NewTenants(func(string, string, error) { bad++ })
	apply := func(v []byte) {
		if err := tenants.Apply(bus.Record{Topic: topics.CatalogTenants, Key: []byte("acme"), Value: v}); err != nil {
			t.Fatal(err)
		}
	}
	apply(value)
	apply([]byte("not a message"))
	apply([]byte{})
	if _, ok := tenants.At("acme", time.Now()); !ok || bad != 2 {
		t.Errorf("known %v, bad %d", ok, bad)
	}
	apply(nil)
	if ids := tenants.IDs(); len(ids) != 0 {
		t.Errorf("after the tombstone: %v", ids)
	}
}

// FuzzDecodeTenant: no bytes make it panic, and what it accepts encodes again.
func FuzzDecodeTenant(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\n\x04acme"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if h, err := DecodeTenant(b); err == nil {
			if _, err := EncodeTenant(h); err != nil {
				t.Error(err)
			}
		}
	})
}
