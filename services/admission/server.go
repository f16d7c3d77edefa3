package admission

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/weir-project/weir/pkg/obs"
)

// tenantHeader picks one of a service credential's tenants.
const tenantHeader = "X-Weir-Tenant"

// serve wraps a call: identify, handle, answer, measure. A client that hangs up does not stop what was begun, so the
// context ends by the deadline alone.
func (s *Service) serve(route route) http.Handler {
	answered := s.metrics.of(route.pattern)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begin := s.deps.Now()
		ctx := context.WithoutCancel(r.Context())
		code := s.run(ctx, route, w, r)
		answered(code, s.deps.Now().Sub(begin))
	})
}

// run handles one request and returns the code for the metrics, "ok" for none.
func (s *Service) run(ctx context.Context, route route, w http.ResponseWriter, r *http.Request) string {
	defer s.recoverPanic(w, r)
	c, err := route.who(ctx, r)
	var a answer
	if err == nil {
		a, err = route.handle(ctx, c, w, r)
	}
	a.rates.write(w.Header())
	if r.Body != http.NoBody {
		obs.AnswerFirst(w, r, s.deps.Now())
	}
	if err != nil {
		p := s.failed(err)
		p.write(w)
		return string(p.Code)
	}
	s.writeAnswer(w, a)
	return codeGood
}

// identifyHTTP verifies the credential of an HTTP request and picks the tenant.
func (s *Service) identifyHTTP(ctx context.Context, r *http.Request) (caller, error) {
	return s.identify(ctx, credentialsOf(r))
}

// identifyEnding is identifyHTTP of a call that ends a reservation.
func (s *Service) identifyEnding(ctx context.Context, r *http.Request) (caller, error) {
	given := credentialsOf(r)
	given.ends = true
	return s.identify(ctx, given)
}

func credentialsOf(r *http.Request) credentials {
	// The names are as net/http stores them: looking that up for each costs more than what they are looked up for.
	authorization, tenant := r.Header["Authorization"], r.Header[tenantHeader]
	given := credentials{tls: r.TLS, language: strings.Join(r.Header["Accept-Language"], ","), twice: repeatedHeader(authorization, tenant)}
	if len(authorization) > 0 {
		given.authorization = authorization[0]
	}
	if len(tenant) > 0 {
		given.tenant = tenant[0]
	}
	return given
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

// maxUnchunked is how long an answer may be for net/http to write its length by itself; a longer one it sends in chunks.
const maxUnchunked = 2048

func (s *Service) writeAnswer(w http.ResponseWriter, a answer) {
	if a.status == http.StatusNoContent {
		w.WriteHeader(a.status)
		return
	}
	room := s.room()
	defer s.giveBack(room) // after Write, which keeps nothing of it
	body := (*room)[:0]
	switch b := a.body.(type) {
	case []byte: // somebody else's: of a row, where it ends its line already
		body = append(body, bytes.TrimSuffix(b, []byte{'\n'})...)
	case appender:
		body = b.appendJSON(body)
	default:
		text, err := json.Marshal(a.body)
		if err != nil {
			problem(codeInternal, "The answer does not encode.").write(w)
			return
		}
		body = append(body, text...)
	}
	body = append(body, '\n') // a shell's prompt follows on a line of its own
	*room = body
	h := w.Header()
	values := [...]string{"application/json", "no-store"} // the names are as Set would write them
	h["Content-Type"], h["Cache-Control"] = values[0:1:1], values[1:2:2]
	if len(body) > maxUnchunked {
		h["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(body) // a client that went away finds the outcome by repeating
}
