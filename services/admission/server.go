package admission

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"
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
	if err != nil {
		a.rate.write(w.Header())
		p := s.failed(err)
		p.write(w)
		return string(p.Code)
	}
	s.writeAnswer(w, a)
	return codeGood
}

// identifyHTTP verifies the credential of an HTTP request and picks the tenant.
func (s *Service) identifyHTTP(ctx context.Context, r *http.Request) (caller, error) {
	// The names are as net/http stores them: looking that up for each costs more than what they are looked up for.
	authorization, tenant := r.Header["Authorization"], r.Header[tenantHeader]
	given := credentials{tls: r.TLS, language: strings.Join(r.Header["Accept-Language"], ","), twice: repeatedHeader(authorization, tenant)}
	if len(authorization) > 0 {
		given.authorization = authorization[0]
	}
	if len(tenant) > 0 {
		given.tenant = tenant[0]
	}
	return s.identify(ctx, given)
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

func (s *Service) writeAnswer(w http.ResponseWriter, a answer) {
	if a.status == http.StatusNoContent {
		a.rate.write(w.Header())
		w.WriteHeader(a.status)
		return
	}
	var body []byte
	switch b := a.body.(type) {
	case []byte:
		body = b
	case appender:
		buf, ok := s.bodies.Get().(*[]byte)
		if !ok {
			buf = new([]byte)
		}
		defer s.bodies.Put(buf) // after Write, which keeps nothing of it
		body = b.appendJSON((*buf)[:0])
		*buf = body
	default:
		var err error
		if body, err = json.Marshal(a.body); err != nil {
			problem(codeInternal, "The answer does not encode.").write(w)
			return
		}
	}
	// A long one would be sent in chunks without its length.
	a.rate.writeHeader(w.Header(), len(body))
	w.WriteHeader(a.status)
	_, _ = w.Write(body) // a client that went away finds the outcome by repeating
}

// writeHeader sets what the header of an answer in JSON says. Every answer has one, so its values are made in two pieces of
// memory. The names are as Set would write them.
func (r rate) writeHeader(h http.Header, length int) {
	var room [128]byte
	text := strconv.AppendInt(room[:0], int64(length), 10)
	policy := len(text)
	text = r.appendPolicy(text)
	state := len(text)
	all := string(r.appendState(text))
	values := [...]string{all[:policy], "application/json", "no-store", all[policy:state], all[state:]}
	h["Content-Length"], h["Content-Type"], h["Cache-Control"] = values[0:1:1], values[1:2:2], values[2:3:3]
	if r.limit > 0 {
		h["Ratelimit-Policy"], h["Ratelimit"] = values[3:4:4], values[4:5:5]
	}
}

// write sets the RateLimit fields of the IETF draft, for the one limit that is a plain quota per time.
func (r rate) write(h http.Header) {
	if r.limit > 0 {
		h["Ratelimit-Policy"], h["Ratelimit"] = []string{r.policy()}, []string{r.state()}
	}
}

func (r rate) policy() string { return string(r.appendPolicy(nil)) }

func (r rate) state() string { return string(r.appendState(nil)) }

// appendPolicy appends the draft's RateLimit-Policy: so many requests in 60 seconds.
func (r rate) appendPolicy(b []byte) []byte {
	return append(strconv.AppendInt(append(b, `"requests";q=`...), r.limit, 10), ";w=60"...)
}

// appendState appends the draft's RateLimit: what is left and, where nothing is, in how many seconds something will be.
func (r rate) appendState(b []byte) []byte {
	b = strconv.AppendInt(append(b, `"requests";r=`...), max(0, r.left), 10)
	if r.wait > 0 {
		b = strconv.AppendInt(append(b, ";t="...), int64((r.wait+time.Second-1)/time.Second), 10)
	}
	return b
}
