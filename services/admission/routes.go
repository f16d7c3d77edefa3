package admission

import (
	"context"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-project/weir/pkg/obs"
)

// handler is one call over HTTP: it decodes the request and makes the call.
type handler func(ctx context.Context, c caller, w http.ResponseWriter, r *http.Request) (answer, error)

// identifier finds out who asks, before the handler.
type identifier func(ctx context.Context, r *http.Request) (caller, error)

// route is one call of the API.
type route struct {
	pattern string // as http.ServeMux takes it
	who     identifier
	handle  handler
}

// table is every call of the API; operations.go says what OpenAPI says of each.
func (s *Service) table() []route {
	return []route{
		{"POST /v1/executions", s.identifyHTTP, withBody(s, s.begin)},
		{"POST /v1/executions/{root}/close", s.identifyHTTP, withID(s, "root", mayBeEmpty, s.closeExecution)},
		{"POST /v1/reservations", s.identifyHTTP, withBody(s, s.reserve)},
		{"POST /v1/reservations:batch", s.identifyHTTP, s.reserveBatchHTTP},
		{"GET /v1/reservations/{id}", s.identifyHTTP, s.stateHTTP},
		{"POST /v1/reservations/{id}/settle", s.identifyEnding, withID(s, "id", notEmpty, s.settle)},
		{"POST /v1/reservations/{id}/release", s.identifyEnding, withID(s, "id", mayBeEmpty, s.release)},
		{"POST /v1/reservations/{id}/extend", s.identifyHTTP, withID(s, "id", mayBeEmpty, s.extend)},
		{"GET /v1/budget", s.identifyHTTP, s.budgetHTTP},
		{"POST /v1/events", s.identifyHTTP, s.ingestHTTP},
		{"POST /api/v1/events", s.identifyHTTP, s.ingestHTTP}, // where OpenMeter's clients send
		{"POST /v1/executions:from-slack", byBody, s.fromSlack},
		{"POST /v1/executions:from-telegram", byBody, s.fromTelegram},
		{"GET /openapi.json", byBody, s.describe},
	}
}

// routes is the API with health and metrics.
func (s *Service) routes() http.Handler {
	mux := http.NewServeMux()
	s.observe.Register(mux)
	byPattern := map[string]http.Handler{}
	for _, r := range s.table() {
		h := s.serve(r)
		mux.Handle(r.pattern, h)
		byPattern[r.pattern] = h
	}
	return shortcut(byPattern, fallback(mux, s.deps.Now))
}

// reservationPath begins the paths of what is done with one reservation.
const reservationPath = "/v1/reservations/"

// shortcut knows the paths that are POSTed to as they are, reservations among them, and has a mux of its own for what is
// done with one. That of others says what is wrong with a path; to do so it looks at each part of it, and twice.
func shortcut(byPattern map[string]http.Handler, others http.Handler) http.Handler {
	whole, reservations := map[string]http.Handler{}, http.NewServeMux()
	reservations.Handle("/", others)
	for pattern, h := range byPattern {
		path, ok := strings.CutPrefix(pattern, http.MethodPost+" ")
		switch {
		case !ok:
		case !strings.Contains(path, "{"):
			whole[path] = h
		case strings.HasPrefix(path, reservationPath):
			reservations.Handle(pattern, h)
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.Path
		switch h, ok := whole[path]; {
		case r.Method != http.MethodPost || r.URL.RawPath != "": // not sent as it is read (%2F): it may mean another one to the mux
			others.ServeHTTP(w, r)
		case ok:
			h.ServeHTTP(w, r)
		case strings.HasPrefix(path, reservationPath) && !strings.Contains(path, "//") && !strings.Contains(path, "/."): // nor made shorter
			reservations.ServeHTTP(w, r)
		default:
			others.ServeHTTP(w, r)
		}
	})
}

// Whether the body of a call may be left out.
const (
	notEmpty   = false
	mayBeEmpty = true
)

// withBody is a call that its body describes.
func withBody[R any](s *Service, call func(context.Context, caller, R) (answer, error)) handler {
	return func(ctx context.Context, c caller, w http.ResponseWriter, r *http.Request) (answer, error) {
		var req R
		if p := s.decode(w, r, &req, notEmpty); p != nil {
			return answer{}, p
		}
		return call(ctx, c, req)
	}
}

// withID is a call about what the path names.
func withID[R any](s *Service, name string, empty bool, call func(context.Context, caller, string, R) (answer, error)) handler {
	return func(ctx context.Context, c caller, w http.ResponseWriter, r *http.Request) (answer, error) {
		var req R
		if p := s.decode(w, r, &req, empty); p != nil {
			return answer{}, p
		}
		return call(ctx, c, r.PathValue(name), req)
	}
}

func (s *Service) stateHTTP(ctx context.Context, c caller, _ http.ResponseWriter, r *http.Request) (answer, error) {
	return s.state(ctx, c, r.PathValue("id"))
}

func (s *Service) budgetHTTP(ctx context.Context, c caller, _ http.ResponseWriter, r *http.Request) (answer, error) {
	named, p := parameters(r.URL, "agent_id", "cost_center")
	if p != nil {
		return answer{}, p
	}
	return s.budget(ctx, c, budgetRequest{AgentID: named["agent_id"], CostCenter: named["cost_center"]})
}

// parameters are those of a query, each known and there once. One that cannot be read is refused, as net/url's own Query would
// not: what it leaves out may be a limit.
func parameters(u *url.URL, known ...string) (map[string]string, *Problem) {
	all, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, invalid("", "The query cannot be read: parameters are percent-encoded, with & between them.")
	}
	out := make(map[string]string, len(all))
	for name, values := range all {
		switch {
		case !slices.Contains(known, name):
			return nil, invalid(name, "Unknown parameter "+strconv.Quote(name)+".")
		case len(values) > 1:
			return nil, invalid(name, name+" is there more than once.")
		}
		out[name] = values[0]
	}
	return out, nil
}

// fallback makes problem documents of the mux's own 404 and 405.
func fallback(mux *http.ServeMux, now func() time.Time) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, pattern := mux.Handler(r)
		clean := path.Clean(r.URL.Path)
		if pattern != "" && (clean == r.URL.Path || clean+"/" == r.URL.Path) { // else the mux would send the client to another path
			mux.ServeHTTP(w, r)
			return
		}
		obs.AnswerFirst(w, r, now())
		probe := &statusProbe{header: http.Header{}}
		h.ServeHTTP(probe, r)
		if pattern == "" && probe.status == http.StatusMethodNotAllowed {
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
