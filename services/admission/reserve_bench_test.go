package admission

import (
	"context"
	"crypto/rand"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/catalog"
	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/ladder"
	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/gen/weirv1"
	"github.com/weir-project/weir/pkg/identity"
	"github.com/weir-project/weir/pkg/pgstore"
	"github.com/weir-project/weir/services/admission/decisions"
	"github.com/weir-project/weir/services/admission/epoch"
	"github.com/weir-project/weir/services/admission/holdcache"
)

// reserveBench is admission with a tenant, a key and an execution token, and a store that admits without being asked: what
// is measured is a reservation without the connection and Redis.
type reserveBench struct {
	service       *Service
	call          func(context.Context, caller, reserveRequest) (answer, error)
	api           http.Handler
	authorization string
	body          string
	answer        discard
}

func newReserveBench(b testing.TB, saving bool) *reserveBench {
	b.Helper()
	must := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	s := pricedService(b, model("gpt-4o", "0.0005", 0, 16384), model("gpt-4o-mini", "0.00005", 0, 16384))
	var err error
	s.cfg.Secret, err = identity.NewSecret([]byte(strings.Repeat("s", 32)))
	must(err)
	s.cfg.MaxLease, s.cfg.Deadline = 2*time.Minute, time.Second
	s.decisions = &teller{queue: decisions.New(nil, prometheus.NewRegistry(), nil).Add, sample: 100}
	s.holds = holdcache.New(1<<17, s.metrics.forgotten.Inc)
	s.kills.mirrorRead.Store(true)
	s.epochs = epoch.Fixed(s.deps.Now, pgstore.RedisEpoch{Epoch: 4_000_000_000_000_007}, time.Now().Add(24*time.Hour), nil)

	key, err := identity.NewAPIKey(rand.Reader)
	must(err)
	s.catalogs.apiKeys = catalog.NewAPIKeys(nil)
	value, err := proto.Marshal(&weirv1.ApiKey{KeyId: key.ID, SecretHash: key.Hash, TenantIds: []string{"bench"}})
	must(err)
	must(s.catalogs.apiKeys.Apply(bus.NewRecord(topics.CatalogApikeys, key.ID, []byte(key.ID), value)))

	signing, err := identity.NewTokenKey(rand.Reader)
	must(err)
	s.catalogs.signing, s.catalogs.ownKey = catalog.NewSigningKeys(nil), signing.ID
	s.catalogs.tokens = identity.NewTokenCache(s.catalogs.signing.Get)
	value, err = proto.Marshal(signing.Record())
	must(err)
	must(s.catalogs.signing.Apply(bus.NewRecord(topics.ControlKeys, signing.ID, []byte(signing.ID), value)))
	token, err := signing.SignExecutionToken(identity.Execution{Tenant: "bench", Root: "root-1", Agent: "agent-1", CostCenter: "bench", MaxDepth: 5,
		MaxCost: 1 << 50, ExpiresAt: time.Now().Add(time.Hour)}, time.Now())
	must(err)

	k := tenant.Contract{EffectiveFrom: time.Now().Add(-time.Hour), Limits: tenant.Limits{RequestsPerMinute: 1 << 30, Concurrency: 1 << 30},
		Ceilings: tenant.Ceilings{Minute: 1 << 50, Day: 1 << 50, Month: 1 << 50}, Count: tenant.CountRaw, Month: tenant.MonthCalendar, Ladder: tenant.DefaultLadder()}
	if saving {
		k.Actions = tenant.Actions{SavingModels: map[string]string{"gpt-4o": "gpt-4o-mini"}}
	}
	value, err = catalog.EncodeTenant(tenant.History{ID: "bench", Versions: []tenant.Contract{k}})
	must(err)
	must(s.catalogs.tenants.Apply(bus.NewRecord(topics.CatalogTenants, "bench", []byte("bench"), value)))

	call := func(ctx context.Context, c caller, req reserveRequest) (answer, error) {
		var p prepared
		if err := s.prepare(&c, &req, &p); err != nil {
			return answer{}, err
		}
		e := p.request.Estimate
		return s.conclude(&c, &p, &budgetstore.Reply{Verdict: budgetstore.Admitted, Answer: admit.Answer{ReservedAt: p.now, LeaseUntil: p.now.Add(p.request.Lease),
			Day: 20261130, Month: 202611, Rung: ladder.Normal, Reserved: e, DayUsed: 10 * e.Nanos, DayCeiling: 1 << 50,
			Remaining: admit.Remaining{Minute: 1<<50 - e.Nanos, Day: 1<<50 - 2*e.Nanos, Month: 1<<50 - 3*e.Nanos, Requests: 1<<30 - 1},
			Execution: admit.ExecutionFigures{Spent: e.Nanos, Remaining: 1<<50 - e.Nanos, Calls: 1, Limited: true}}})
	}
	r := &reserveBench{service: s, call: call, api: s.serve(route{"POST /v1/reservations", s.identifyHTTP, withBody(s, call)}), authorization: "Bearer " + key.Text,
		body: `{"reservation_id":"call-1-2-3","provider":"openai","model":"gpt-4o","estimate":{"input_tokens":900,"max_output_tokens":300},` +
			`"effect":"read","lease_seconds":120,"execution_token":"` + token + `"}`, answer: discard{header: http.Header{}}}
	return r
}

// discard is a ResponseWriter that keeps the status only.
type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(status int)      { d.status = status }

// unclosed is io.NopCloser, without memory of its own.
type unclosed struct{ *strings.Reader }

func (unclosed) Close() error { return nil }

// ask is one request, as net/http hands it over.
func (r *reserveBench) ask(request *http.Request, body *strings.Reader) {
	body.Reset(r.body)
	request.Body = unclosed{body} // who has read it takes it away
	clear(r.answer.header)
	r.api.ServeHTTP(&r.answer, request)
}

func (r *reserveBench) request() (*http.Request, *strings.Reader) {
	body := strings.NewReader(r.body)
	request := httptest.NewRequest(http.MethodPost, "/v1/reservations", nil)
	request.ContentLength = int64(len(r.body))
	request.Header.Set("Authorization", r.authorization)
	request.Header.Set("Content-Type", "application/json")
	return request, body
}

// BenchmarkReserve is what a reservation costs beside net/http and the store.
func BenchmarkReserve(b *testing.B) {
	for name, saving := range map[string]bool{"one model": false, "with a cheaper one": true} {
		b.Run(name, func(b *testing.B) {
			r := newReserveBench(b, saving)
			request, body := r.request()
			b.ReportAllocs()
			for b.Loop() {
				r.ask(request, body)
			}
			if r.answer.status != http.StatusCreated {
				b.Errorf("status %d", r.answer.status)
			}
		})
	}
}
