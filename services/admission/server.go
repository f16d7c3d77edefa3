package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/identity"
)

// tenantHeader picks one of a service credential's tenants.
const tenantHeader = "X-Weir-Tenant"

// caller is who asks, verified, and for which tenant.
type caller struct {
	tenant    string
	contract  tenant.Contract
	principal identity.Principal
}

// answer is what a handler gives back; body is encoded as JSON unless it is bytes already.
type answer struct {
	status int
	body   any
	header http.Header
}

// handler is one call of the API. Its error is a *Problem or one of a store's.
type handler func(ctx context.Context, c caller, w http.ResponseWriter, r *http.Request) (answer, error)

// identifier finds out who asks, before the handler.
type identifier func(ctx context.Context, r *http.Request) (caller, error)

// routes is every call of design.md section 12 that exists so far.
func (s *Service) routes() http.Handler {
	mux := http.NewServeMux()
	s.observe.Register(mux)
	for pattern, h := range map[string]handler{
		"POST /v1/executions":                s.startExecution,
		"POST /v1/executions/{root}/close":   s.closeExecution,
		"POST /v1/reservations":              s.reserve,
		"GET /v1/reservations/{id}":          s.state,
		"POST /v1/reservations/{id}/settle":  s.settle,
		"POST /v1/reservations/{id}/release": s.release,
		"POST /v1/reservations/{id}/extend":  s.extend,
		"GET /v1/budget":                     s.budget,
		"POST /v1/events":                    s.ingest,
		"POST /api/v1/events":                s.ingest, // where OpenMeter's clients send
	} {
		mux.Handle(pattern, s.serve(pattern, s.identify, h))
	}
	for pattern, h := range map[string]handler{
		"POST /v1/executions:from-slack":    s.fromSlack,
		"POST /v1/executions:from-telegram": s.fromTelegram,
	} {
		mux.Handle(pattern, s.serve(pattern, byBody, h))
	}
	return fallback(mux)
}

// fallback makes problem documents of the mux's own 404 and 405.
func fallback(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, pattern := mux.Handler(r)
		if pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		probe := &statusProbe{header: http.Header{}}
		h.ServeHTTP(probe, r)
		if probe.status == http.StatusMethodNotAllowed {
			w.Header().Set("Allow", probe.header.Get("Allow"))
			problem(codeMethod, "This path takes "+probe.header.Get("Allow")+".").write(w)
			return
		}
		problem(codeNotFound, "There is no such path.").write(w)
	})
}

// statusProbe learns what the mux would have answered.
type statusProbe struct {
	header http.Header
	status int
}

func (p *statusProbe) Header() http.Header         { return p.header }
func (p *statusProbe) Write(b []byte) (int, error) { return len(b), nil }
func (p *statusProbe) WriteHeader(status int)      { p.status = status }

// serve wraps a call: identify, handle, answer, measure. A client that hangs up does not stop what was begun, so the
// context ends by the deadline alone.
func (s *Service) serve(pattern string, who identifier, h handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begin := s.deps.Now()
		ctx := context.WithoutCancel(r.Context())
		code := s.run(ctx, who, h, w, r)
		s.metrics.answered(pattern, code, s.deps.Now().Sub(begin))
	})
}

// run handles one request and returns the code for the metrics, "ok" for none.
func (s *Service) run(ctx context.Context, who identifier, h handler, w http.ResponseWriter, r *http.Request) string {
	defer s.recoverPanic(w, r)
	c, err := who(ctx, r)
	var a answer
	if err == nil {
		a, err = h(ctx, c, w, r)
	}
	if err != nil {
		p := storeProblem(err)
		if p.Status >= http.StatusInternalServerError {
			s.trouble(p, err)
		}
		for k, v := range a.header {
			w.Header()[k] = v
		}
		p.write(w)
		return string(p.Code)
	}
	writeAnswer(w, a)
	return "ok"
}

// recoverPanic turns a bug into a 500 and a log line; the hold, if there is one, expires by its lease.
func (s *Service) recoverPanic(w http.ResponseWriter, r *http.Request) {
	cause := recover()
	if cause == nil {
		return
	}
	s.deps.Log.Error("panic in a handler", "path", r.URL.Path, "cause", cause)
	problem(codeInternal, "A defect of this service; it was logged.").write(w)
}

func writeAnswer(w http.ResponseWriter, a answer) {
	if a.status == http.StatusNoContent {
		w.WriteHeader(a.status)
		return
	}
	body, ok := a.body.([]byte)
	if !ok {
		var err error
		if body, err = json.Marshal(a.body); err != nil {
			problem(codeInternal, "The answer does not encode.").write(w)
			return
		}
	}
	h := w.Header()
	for k, v := range a.header {
		h[k] = v
	}
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(a.status)
	_, _ = w.Write(body) // a client that went away finds the outcome by repeating
}

// identify verifies the credential and picks the tenant.
func (s *Service) identify(ctx context.Context, r *http.Request) (caller, error) {
	if p := s.unready(); p != nil {
		return caller{}, p
	}
	principal, err := s.authenticate(ctx, r)
	if err != nil {
		return caller{}, identityProblem(err)
	}
	return s.callerOf(principal, r)
}

// unready refuses while the catalogs are not loaded. Nobody can be judged then: that is an outage, and never a 401.
func (s *Service) unready() *Problem {
	if s.catalogs.loaded() && s.kills.mirrorRead.Load() {
		return nil
	}
	if p := s.killed("", "", ""); p != nil { // known from the mirror while Kafka is away, and not to be retried
		return p
	}
	return problem(admit.StoreUnavailable, "Tenants, keys and prices are not loaded yet.")
}

// callerOf picks the tenant of a request, which must exist.
func (s *Service) callerOf(principal identity.Principal, r *http.Request) (caller, error) {
	name, err := principal.Tenant(r.Header.Get(tenantHeader))
	if err != nil {
		return caller{}, identityProblem(err)
	}
	contract, ok := s.catalogs.tenants.At(name, s.deps.Now())
	if !ok || contract.Removed {
		return caller{}, problem(admit.ForbiddenTenant, "There is no such tenant, or it was removed.")
	}
	return caller{tenant: name, contract: contract, principal: principal}, nil
}

// authenticate takes the Authorization header or, where there is none, the client certificate.
func (s *Service) authenticate(ctx context.Context, r *http.Request) (identity.Principal, error) {
	header := r.Header.Get("Authorization")
	if header == "" && r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		return identity.VerifyCertificate(r.TLS, s.tenantOfIdentity, s.deps.Now())
	}
	scheme, credential, ok := strings.Cut(header, " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return identity.Principal{}, fmt.Errorf("%w: send Authorization: Bearer KEY", identity.ErrUnauthenticated)
	}
	credential = strings.TrimSpace(credential)
	if strings.HasPrefix(credential, "wk_") || s.jwt == nil {
		return identity.VerifyAPIKey(credential, s.catalogs.apiKeys.Get, s.deps.Now())
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Deadline)
	defer cancel()
	return s.jwt.Verify(ctx, credential, s.deps.Now())
}

// bounded is the context of what one step may wait for a store.
func (s *Service) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.cfg.Deadline)
}

// trouble logs the first of a kind of trouble and then one line every ten seconds.
func (s *Service) trouble(p *Problem, err error) {
	if s.quiet.pass(string(p.Code), s.deps.Now()) {
		s.deps.Log.Warn("refusing", "err_id", p.Code, "error", err)
	}
}

// quietFor is how long after a log line the next one of its kind is dropped.
const quietFor = 10 * time.Second
