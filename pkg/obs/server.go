package obs

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// checkTimeout bounds one readiness check; probes come every few seconds.
const checkTimeout = 2 * time.Second

// NewRegistry makes a registry with the Go runtime's and the process' own metrics.
func NewRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// Silence is the metric of how long a dependency has given no answer: what is known by asking it, a lag or a backlog, is that old.
func Silence(dependency string, silent func() time.Duration) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "weir_dependency_silent_seconds", ConstLabels: prometheus.Labels{"dependency": dependency},
		Help: "Seconds since a dependency last answered this process, which asks it every few seconds."}, func() float64 { return silent().Seconds() })
}

// Server answers /healthz, /readyz, /metrics and /catalogz. Add everything before it serves.
type Server struct {
	registry *prometheus.Registry
	checks   []check
	catalogs map[string]func() map[int32]int64
}

type check struct {
	name string
	ok   func(ctx context.Context) error
}

// NewServer makes a server that is ready, as long as nothing is added.
func NewServer(registry *prometheus.Registry) *Server {
	return &Server{registry: registry, catalogs: map[string]func() map[int32]int64{}}
}

// AddCheck adds a named readiness check. It is called on every probe, with a time-out of 2 s, and returns nil when ready.
func (s *Server) AddCheck(name string, ok func(ctx context.Context) error) {
	s.checks = append(s.checks, check{name, ok})
}

// AddCatalog adds a followed topic: offsets gives the next offset to apply per partition (bus.Follower.Offsets), ready
// becomes a readiness check of the topic's name.
func (s *Server) AddCatalog(topic string, ready func() bool, offsets func() map[int32]int64) {
	s.catalogs[topic] = offsets
	s.AddCheck(topic, func(context.Context) error {
		if !ready() {
			return errors.New("not caught up")
		}
		return nil
	})
}

// Register puts the four paths on a mux, for a service (admission) that has its own listener.
func (s *Server) Register(mux *http.ServeMux) {
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	mux.HandleFunc("GET /readyz", s.readyz)
	mux.HandleFunc("GET /catalogz", s.catalogz)
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{Registry: s.registry}))
}

// Failing asks every check, side by side and for at most 2 s, and returns why each that fails does, by its name: empty when
// ready.
func (s *Server) Failing(ctx context.Context) map[string]error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	reasons := make([]error, len(s.checks))
	var wg sync.WaitGroup
	for i, c := range s.checks {
		wg.Go(func() { reasons[i] = c.ok(ctx) })
	}
	wg.Wait()
	failing := map[string]error{}
	for i, reason := range reasons {
		if reason != nil {
			failing[s.checks[i].name] = reason
		}
	}
	return failing
}

// NotReady is the answer of /readyz while a check fails.
type NotReady struct {
	Status string `json:"status"`
	// Reasons are why, for people, by the check's name.
	Reasons map[string]string `json:"not_ready"`
	// Codes are the same for programs, of those checks whose error is a Coded: they do not change with the words.
	Codes map[string]string `json:"codes,omitempty"`
}

// Coded is an error with a stable code.
type Coded interface {
	error
	ReadyCode() string
}

// readyz answers 200, or 503 with the name and reason of every check that fails.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	failing := s.Failing(r.Context())
	if len(failing) == 0 {
		writeJSON(w, http.StatusOK, map[string]string{"status": "ready"})
		return
	}
	out := NotReady{Status: "not ready", Reasons: map[string]string{}, Codes: map[string]string{}}
	for name, why := range failing {
		out.Reasons[name] = why.Error()
		if coded, ok := errors.AsType[Coded](why); ok {
			out.Codes[name] = coded.ReadyCode()
		}
	}
	writeJSON(w, http.StatusServiceUnavailable, out)
}

// catalogz answers {topic: {partition: next offset to apply}}; `weir tenants apply` and its like wait on it.
func (s *Server) catalogz(w http.ResponseWriter, _ *http.Request) {
	body := map[string]map[int32]int64{}
	for topic, offsets := range s.catalogs {
		body[topic] = offsets()
	}
	writeJSON(w, http.StatusOK, body)
}

// Serve answers on the listener until ctx ends, then lets requests in flight finish for up to a second.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	mux := http.NewServeMux()
	s.Register(mux)
	return Serve(ctx, l, mux, time.Second)
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client went away: nobody is left to tell
}
