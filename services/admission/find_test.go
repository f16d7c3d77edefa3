package admission

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/pgstore"
	"github.com/weir-project/weir/services/admission/epoch"
	"github.com/weir-project/weir/services/admission/holdcache"
)

// remembering is a service that has no stores, serves in epoch 7, and has granted the usual hold as r1.
func remembering(tb testing.TB, change ...func(*holdcache.Hold, *call)) *Service {
	tb.Helper()
	s, h := priced(tb), usualHold()
	now := time.Unix(1_800_000_000, 0)
	s.deps = Deps{Now: func() time.Time { return now }}
	s.metrics = newMetrics(prometheus.NewRegistry())
	s.holds = holdcache.New(64, func() {})
	s.serveIn(pgstore.RedisEpoch{Epoch: 7}, nil)
	c, err := decodeCall(h.Context)
	if err != nil {
		tb.Fatal(err)
	}
	own := holdcache.Hold{Tenant: "acme", ID: "r1", Epoch: 7, ReservedAt: h.Answer.ReservedAt, Ends: now.Add(time.Minute), Day: 20261130, Month: 202611,
		Held: h.Held, Fingerprint: admit.Fingerprint{1}}
	for _, f := range change {
		f(&own, &c)
	}
	own.Call = c.encode()
	s.holds.Put(own)
	return s
}

// serveIn has the service's watcher read a row now, or an error.
func (s *Service) serveIn(row pgstore.RedisEpoch, err error) {
	s.epochs = epoch.Fixed(s.deps.Now, row, s.deps.Now(), err)
}

// Goal: a remembered hold is believed where it says all that Redis would, by every guard of the epoch; else Redis is asked.
func TestRecalled(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*holdcache.Hold, *call)
		after  func(*Service)
		tenant string
		want   bool
	}{
		"the usual one":           {want: true},
		"of a dearest rate":       {change: func(_ *holdcache.Hold, c *call) { c.Dearest = true }, want: true},
		"its lease is over":       {change: func(h *holdcache.Hold, _ *call) { h.Ends = h.ReservedAt }, want: true}, // Postgres decides, as ever
		"of another tenant":       {tenant: "other"},
		"of an earlier epoch":     {change: func(h *holdcache.Hold, _ *call) { h.Epoch = 6 }},
		"it counts in sub-scopes": {change: func(_ *holdcache.Hold, c *call) { c.Scopes = "a" }},
		"it has ended":            {after: func(s *Service) { s.holds.Delete("acme", "r1", usualHold().Answer.ReservedAt) }},
		"an earlier one ended":    {after: func(s *Service) { s.holds.Delete("acme", "r1", time.Unix(1, 0)) }, want: true},
		"recovering":              {after: func(s *Service) { s.serveIn(pgstore.RedisEpoch{Epoch: 7, Recovering: true}, nil) }},
		"raised":                  {after: func(s *Service) { s.serveIn(pgstore.RedisEpoch{Epoch: 8}, nil) }},
		"nobody is served":        {after: func(s *Service) { s.serveIn(pgstore.RedisEpoch{Epoch: 7}, epoch.ErrRefused) }},
	} {
		t.Run(name, func(t *testing.T) {
			s := remembering(t)
			if c.change != nil {
				s = remembering(t, c.change)
			}
			if c.after != nil {
				c.after(s)
			}
			tenant := "acme"
			if c.tenant != "" {
				tenant = c.tenant
			}
			subj, ok := s.recalled(tenant, "r1")
			if ok != c.want {
				t.Fatalf("recalled %v, want %v", ok, c.want)
			}
			if ok && (!subj.recalled || !subj.direct || subj.epoch != 7 || subj.held != usualHold().Held || !subj.reservedAt.Equal(usualHold().Answer.ReservedAt) ||
				subj.call.Root != "root-1" || subj.day != 20261130 || subj.month != 202611 || subj.fingerprint != (admit.Fingerprint{1})) {
				t.Errorf("%+v", subj)
			}
		})
	}
}

// Goal: what an amount depends on is asked of Redis: the estimate, an unpriced call's, and one of nothing, in whose place the
// books may take what was held.
func TestChargesThatAskTheHold(t *testing.T) {
	s := remembering(t)
	subj, _ := s.recalled("acme", "r1")
	contract := s.catalogs.tenants.InForce("acme", subj.reservedAt)
	for body, want := range map[string]bool{
		usualSettle:                      false,
		`{"cache_hit":"exact"}`:          false,
		`{"meters":{"output_tokens":0}}`: true,
		`{"status":"FAILED"}`:            true,
		`{"status":"PARTIAL"}`:           true,
		`{}`:                             true,
		`{"model":"nobody-knows","meters":{"output_tokens":9}}`: true,
	} {
		var req settleRequest
		if p := decodeStrict([]byte(body), &req); p != nil {
			t.Fatal(p)
		}
		c, p := chargeFor(&req, &subj, s.catalogs.prices.Book(), contract)
		if p != nil {
			t.Fatal(body, p)
		}
		if c.asksTheHold() != want {
			t.Errorf("%s: %v, want %v: %+v", body, c.asksTheHold(), want, c)
		}
		grown := subj
		grown.held = admit.Estimate{Nanos: subj.held.Nanos + 1_000_000, InputTokens: subj.held.InputTokens, OutputTokens: subj.held.OutputTokens + 100}
		s.grow(&grown)
		again, p := chargeFor(&req, &grown, s.catalogs.prices.Book(), contract)
		if p != nil {
			t.Fatal(body, p)
		}
		if !want && (again.own != c.own || again.raw.Cmp(*c.raw) != 0 || again.billed.Cmp(*c.billed) != 0) {
			t.Errorf("%s: another amount for a hold that was grown: %+v, %+v", body, c, again)
		}
	}
}

// Goal: the overage is that above what was held, once that is known to be more.
func TestOverageAboveAGrownHold(t *testing.T) {
	for _, c := range []struct {
		own             string // dollars counted
		was, held, want money.Nano
	}{{"0.0000000205", 10, 12, 8}, {"0.00000001", 10, 12, 0}, {"0.000000011", 10, 12, 0}, {"0.000000012", 10, 12, 0}} {
		amount, err := money.ParseUSD(c.own)
		if err != nil {
			t.Fatal(err)
		}
		said := settleAnswer{ReservedUSD: c.was.USD(), Flags: []string{}, EventID: "e"}
		if amount.Cmp(c.was.USD()) > 0 {
			said.OverageUSD = amount.Sub(c.was.USD())
		}
		want := said
		want.ReservedUSD, want.OverageUSD = c.held.USD(), money.USD{}
		if c.want > 0 {
			want.OverageUSD = amount.Sub(c.held.USD())
		}
		got, err := tellHeld(said.appendJSON(nil), c.held-c.was)
		if err != nil || string(got) != string(want.appendJSON(nil))+"\n" {
			t.Errorf("%+v: %s, %v", c, got, err)
		}
	}
}

// BenchmarkRecalled is what a settle pays instead of asking Redis.
func BenchmarkRecalled(b *testing.B) {
	s := remembering(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := s.recalled("acme", "r1"); !ok {
			b.Fatal("not recalled")
		}
	}
}
