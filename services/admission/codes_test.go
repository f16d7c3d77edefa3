//go:build integration

package admission

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/gen/admissionv1"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/gen/weirv1"
)

// codeWalk provokes codes and remembers which it has seen.
type codeWalk struct {
	*both
	seen map[admit.Code]bool
}

// narrow is a contract with one thing changed.
func narrow(change func(*tenant.Contract)) tenant.Contract {
	k := contract()
	change(&k)
	return k
}

// tenantsOfCodes are one tenant for each limit that is to refuse.
func tenantsOfCodes() map[string]tenant.Contract {
	return map[string]tenant.Contract{
		"free": contract(), "dead": narrow(func(k *tenant.Contract) { k.Ceilings.Minute = dollar }),
		"rpm":     narrow(func(k *tenant.Contract) { k.Limits.RequestsPerMinute = 1 }),
		"itpm":    narrow(func(k *tenant.Contract) { k.Limits.InputTokensPerMinute = 60 }),
		"otpm":    narrow(func(k *tenant.Contract) { k.Limits.OutputTokensPerMinute = 60 }),
		"calls":   narrow(func(k *tenant.Contract) { k.Limits.Concurrency = 1 }),
		"many":    contract(),
		"open":    narrow(func(k *tenant.Contract) { k.Limits.OpenExecutions = 1 }),
		"minute":  narrow(func(k *tenant.Contract) { k.Ceilings.Minute, k.Limits.RequestsPerMinute = dollar, 1 }),
		"day":     narrow(func(k *tenant.Contract) { k.Ceilings.Day, k.Limits.Concurrency = dollar, 1 }),
		"month":   narrow(func(k *tenant.Contract) { k.Ceilings.Month = dollar }),
		"saving":  narrow(func(k *tenant.Contract) { k.Ceilings.Day, k.SoftDay = dollar, true }),
		"reading": narrow(func(k *tenant.Contract) { k.Ceilings.Day, k.SoftDay = dollar, true }),
		"tree":    narrow(func(k *tenant.Contract) { k.Execution.MaxDepth, k.Execution.MaxCalls = 1, 2 }),
	}
}

// refused asks in both forms, and holds both answers against the table: status, title, type, Retry-After, RateLimit fields.
func (w *codeWalk) refused(name, who string, code admit.Code, a ask, members ...string) {
	w.w.t.Helper()
	w.refusedBy(name, w.w.keys[who], code, a, nil, members...)
}

func (w *codeWalk) refusedBy(name, key string, code admit.Code, a ask, headers []string, members ...string) {
	w.w.t.Helper()
	w.seen[code] = true
	for form, got := range map[string]heard{"HTTP": w.overHTTP(key, a, headers...), "gRPC": w.overGRPC(key, a, headers...)} {
		problem := func(format string, args ...any) {
			w.w.t.Helper()
			w.w.t.Errorf("%s over %s: %s: %v", name, form, fmt.Sprintf(format, args...), got.raw)
		}
		if got.code != string(code) {
			problem("%s, want %s", got.code, code)
			continue
		}
		if got.http != status(code) || fmt.Sprint(got.raw["status"]) != strconv.Itoa(status(code)) {
			problem("status %d, want %d", got.http, status(code))
		}
		if got.retry != code.Retryable() {
			problem("retry %v", got.retry)
		}
		if got.raw["title"] != title(code) || got.raw["type"] != "urn:weir:problem:"+string(code) || fmt.Sprint(got.raw["detail"]) == "" {
			problem("not a whole problem document")
		}
		if form == "gRPC" && got.grpc != grpcCodes()[code] {
			problem("gRPC's %s, want %s", got.grpc, grpcCodes()[code])
		}
		for i := 0; i+1 < len(members); i += 2 {
			if fmt.Sprint(got.raw[members[i]]) != members[i+1] {
				problem("%s is %v, want %s", members[i], got.raw[members[i]], members[i+1])
			}
		}
		if wait, err := strconv.ParseInt(fmt.Sprint(got.raw["retry_after_ms"]), 10, 64); code.Retryable() && (err != nil || wait < 1000 || wait > 65_000) {
			problem("retry after %d ms", wait)
		}
	}
}

// admitted asks over HTTP and must be taken.
func (w *codeWalk) admitted(who, method, id string, body object) object {
	w.w.t.Helper()
	got := w.overHTTP(w.w.keys[who], ask{method, id, body})
	if got.code != "ok" {
		w.w.t.Fatalf("%s of %s: %v", method, who, got.raw)
	}
	return got.raw
}

func (w *codeWalk) hold(who, id string, n int, more ...string) {
	w.w.t.Helper()
	w.admitted(who, "Reserve", "", reservation(id, n, more...))
}

// reservation of so many cents, with further members that are text.
func reservation(id string, n int, more ...string) object {
	body := cents(id, n)
	for i := 0; i+1 < len(more); i += 2 {
		body[more[i]] = more[i+1]
	}
	return body
}

func reserveOf(id string, n int, more ...string) ask {
	return ask{"Reserve", "", reservation(id, n, more...)}
}

// Goal: every code is answered as codeTable has it, end to end, over HTTP and over gRPC. Method: what
// provokes each, then what provokes two at once; a code that nothing has provoked must say in the table why.
func TestEveryCodeEndToEnd(t *testing.T) {
	w := &codeWalk{newWorld(t, tenantsOfCodes()).startBoth(), map[admit.Code]bool{}}
	w.rates()
	w.budgets()
	w.executions()
	w.callers()
	w.operators()
	w.outages() // last: nothing is admitted after it
	for _, line := range codeTable() {
		elsewhere := line.code == codeInternal // TestDefect
		if !w.seen[line.code] && line.notYet == "" && !elsewhere {
			t.Errorf("nothing has provoked %s", line.code)
		}
		if w.seen[line.code] && line.notYet != "" {
			t.Errorf("%s can be provoked, but the table says: %s", line.code, line.notYet)
		}
	}
}

// rates are what a runtime waits for.
func (w *codeWalk) rates() {
	w.hold("rpm", "r1", 1)
	w.refused("requests", "rpm", admit.RateLimited, reserveOf("r2", 1), "limit", "requests_per_minute", "used", "1", "ceiling", "1")
	for _, got := range []heard{w.overHTTP(w.w.keys["rpm"], reserveOf("r2", 1)), w.overGRPC(w.w.keys["rpm"], reserveOf("r2", 1))} {
		if !regexp.MustCompile(`^"requests";q=1;w=60, "concurrency";q=[0-9]+;qu="concurrent-requests" "requests";r=0;t=[1-9][0-9]?$`).MatchString(got.rate) {
			w.w.t.Errorf("RateLimit fields %q", got.rate)
		}
	}
	tokens := func(id string, in int) ask {
		return ask{"Reserve", "", object{"reservation_id": id, "provider": "openai", "model": "flat", "estimate": object{"input_tokens": in, "max_output_tokens": 1}}}
	}
	w.admitted("itpm", "Reserve", "", tokens("r1", 50).body)
	w.refused("input tokens", "itpm", admit.RateLimited, tokens("r2", 50), "limit", "input_tokens_per_minute")
	w.hold("otpm", "r1", 50)
	w.refused("output tokens", "otpm", admit.RateLimited, reserveOf("r2", 50), "limit", "output_tokens_per_minute")
	w.hold("calls", "r1", 1)
	w.refused("concurrent calls", "calls", admit.RateLimited, reserveOf("r2", 1), "limit", "concurrency")
	first := w.admitted("open", "StartExecution", "", object{"agent_id": "a"})
	second := w.admitted("open", "StartExecution", "", object{"agent_id": "a"})
	w.hold("open", "r1", 1, "execution_token", fmt.Sprint(first["token"]))
	running := fmt.Sprint(w.admitted("many", "StartExecution", "", object{"agent_id": "a"})["token"])
	w.w.redisCommand(`EVAL "for i = 2, 65536 do redis.call('ZADD', KEYS[1], 9e15, i) end" 1 w:{many}:v:r`)
	w.refused("executions", "many", admit.RateLimited, ask{"StartExecution", "", object{"agent_id": "a", "root_execution_id": "one-more"}}, "limit", "executions", "ceiling", "65536")
	if _, left, err := w.svc.rows.Execution(w.w.t.Context(), "many", "one-more"); err != nil || left {
		w.w.t.Errorf("the refused start left a row: %v, %v", left, err)
	}
	w.admitted("many", "StartExecution", "", object{"agent_id": "b", "parent_token": running})
	w.hold("many", "r1", 1, "execution_token", running)
	w.refused("open executions", "open", admit.RateLimited, reserveOf("r2", 1, "execution_token", fmt.Sprint(second["token"])), "limit", "open_executions")
}

// budgets are dollars: what must not be retried goes before what may be.
func (w *codeWalk) budgets() {
	w.hold("minute", "r1", 80)
	w.refused("the minute, and requests too", "minute", admit.TenantQuotaExceeded, reserveOf("r2", 50), "window", "minute", "used", "0.8", "asked", "0.5", "ceiling", "1")
	w.hold("day", "r1", 80)
	w.refused("the day, and concurrency too", "day", admit.TenantQuotaExceeded, reserveOf("r2", 50), "window", "day")
	w.hold("month", "r1", 80)
	w.refused("the month", "month", admit.TenantQuotaExceeded, reserveOf("r2", 50), "window", "month")
	for _, who := range []string{"minute", "day", "month"} {
		got := w.overHTTP(w.w.keys[who], reserveOf("r2", 50))
		at, err := time.Parse(time.RFC3339, fmt.Sprint(got.raw["resets_at"]))
		if err != nil || time.Until(at) <= 0 || got.raw["upgrade_url"] != nil || got.raw["message"] == nil || fmt.Sprint(got.raw["rung"]) != "4" {
			w.w.t.Errorf("%s: when it frees, and what to say: %v", who, got.raw)
		}
	}
	w.hold("saving", "r1", 85)
	w.refused("a side effect at rung 2", "saving", admit.ToolDeferred, reserveOf("r2", 1, "effect", "write"))
	w.hold("saving", "r2", 1, "effect", "read")
	w.hold("reading", "r1", 100)
	w.refused("a side effect at rung 3", "reading", admit.ReadOnlyMode, reserveOf("r2", 1, "effect", "write"))
	w.hold("reading", "r2", 1)
	w.refused("a side effect with no room either", "reading", admit.TenantQuotaExceeded, reserveOf("r3", 50, "effect", "write"), "window", "day")
	w.refused("never fits", "minute", admit.EstimateExceedsLimit, reserveOf("r3", 200), "limit", "minute", "asked", "2", "ceiling", "1")
	if got := w.overHTTP(w.w.keys["minute"], reserveOf("r3", 200)); got.raw["used"] != nil {
		w.w.t.Errorf("used is not what was: %v", got.raw)
	}
	if got := w.overGRPC(w.w.keys["minute"], reserveOf("r3", 200)); got.raw["used"] != nil {
		w.w.t.Errorf("used is not what was: %v", got.raw)
	}
	w.refused("never fits, and requests too", "otpm", admit.EstimateExceedsLimit, reserveOf("r3", 200))
	w.refused("no price", "free", admit.UnknownPrice, reserveOf("r1", 1, "model", "nobody-knows"))
}

func (w *codeWalk) executions() {
	start := func(body object) string { return fmt.Sprint(w.admitted("tree", "StartExecution", "", body)["token"]) }
	poor := start(object{"agent_id": "a", "root_execution_id": "poor", "max_cost_usd": "0.50"})
	w.hold("tree", "r1", 40, "execution_token", poor)
	w.refused("its dollars", "tree", admit.ExecutionBudgetExceeded, reserveOf("r2", 40, "execution_token", poor), "limit", "max_cost_usd", "ceiling", "0.5")
	busy := start(object{"agent_id": "a", "root_execution_id": "busy"})
	w.hold("tree", "r3", 1, "execution_token", busy)
	w.hold("tree", "r4", 1, "execution_token", busy)
	w.refused("its calls", "tree", admit.ExecutionBudgetExceeded, reserveOf("r5", 1, "execution_token", busy), "limit", "max_calls")
	child := start(object{"agent_id": "b", "parent_token": busy})
	w.refused("its depth", "tree", admit.ExecutionDepthExceeded, ask{"StartExecution", "", object{"agent_id": "c", "parent_token": child}}, "limit", "max_depth")
	w.refused("none of its name", "tree", codeExecutionNotFound, ask{"CloseExecution", "nobody", object{}})
	value, err := proto.Marshal(&weirv1.Revocation{TenantId: "tree", RootExecutionId: "poor", Reason: "cost", RevokedAt: timestamppb.Now()})
	w.w.must(err)
	w.w.publish(bus.NewRecord(topics.ExecutionsRevoked, "tree", []byte("tree/poor"), value))
	w.w.eventually("revoked", func() error {
		if got := w.overHTTP(w.w.keys["tree"], reserveOf("r2", 40, "execution_token", poor)); got.code != "execution_revoked" {
			return fmt.Errorf("%v", got.raw)
		}
		return nil
	})
	w.refused("revoked, and out of dollars", "tree", admit.ExecutionRevoked, reserveOf("r2", 40, "execution_token", poor))
	w.refused("revoked, resumed", "tree", admit.ExecutionRevoked, ask{"StartExecution", "", object{"agent_id": "a", "root_execution_id": "poor"}})
}

func (w *codeWalk) callers() {
	w.hold("free", "r1", 1)
	w.refused("other content", "free", admit.ReservationConflict, reserveOf("r1", 2))
	w.admitted("free", "Settle", "r1", object{"meters": object{"output_tokens": 1}})
	w.refused("settled otherwise", "free", admit.ReservationConflict, ask{"Settle", "r1", object{"meters": object{"output_tokens": 2}}}, "state", "settled")
	w.refused("used again", "free", admit.ReservationConflict, reserveOf("r1", 1))
	for _, method := range []string{"Settle", "Release", "Extend", "GetReservation"} {
		w.refused(method+" of none", "free", admit.ReservationNotFound, ask{method, "nobody", object{}})
	}
	w.refused("a member that is wrong", "free", admit.InvalidArgument, reserveOf("r2", 1, "effect", "neither"), "field", "effect")
	w.refusedBy("no credential", "", admit.Unauthenticated, ask{"GetBudget", "", nil}, nil)
	w.refusedBy("a wrong credential", "wk_a_b", admit.Unauthenticated, reserveOf("r2", 1), nil)
	w.refusedBy("another tenant", w.w.keys["free"], admit.ForbiddenTenant, ask{"GetBudget", "", nil}, []string{"x-weir-tenant", "rpm"})
	w.refused("a body that is too large", "free", codeTooLarge, ask{"Settle", "r1", object{"error_code": strings.Repeat("x", maxBody)}})
	for _, path := range []string{"/v1/reservations", "/v1/events", "/v1/reservations/r1/settle"} {
		status, out, header := w.do("POST", path, w.w.keys["free"], "\x1f\x8b\x08", "Content-Encoding", "gzip", "Content-Type", "application/json")
		w.w.want(path, status, out, 415, "code", string(codeEncoded), "field", "Content-Encoding", "title", title(codeEncoded))
		if header.Get("Accept-Encoding") != "identity" {
			w.w.t.Errorf("%s: %v", path, header)
		}
	}
	w.seen[codeEncoded] = true
	status, out, _ := w.do("GET", "/v1/reservations/r1", w.w.keys["free"], nil, "Content-Encoding", "identity")
	w.w.want("identity", status, out, 200)
	for path, want := range map[string]admit.Code{"GET /v1/nothing": codeNotFound, "GET //v1/budget": codeNotFound, "GET /v1/./budget": codeNotFound,
		"POST //v1/reservations": codeNotFound, "GET /v1/x/../budget": codeNotFound, "PUT //v1/budget": codeNotFound, "PUT /v1/budget": codeMethod} {
		method, path, _ := strings.Cut(path, " ")
		status, out, header := w.do(method, path, w.w.keys["free"], nil)
		w.w.want(path, status, out, statusOf(want), "code", string(want), "title", title(want))
		if want == codeMethod && header.Get("Allow") == "" {
			w.w.t.Error("405 without Allow")
		}
		w.seen[want] = true
	}
	err := w.conn.Invoke(context.Background(), "/weir.v1.Admission/Nothing", &admissionv1.GetBudgetRequest{}, &admissionv1.GetBudgetResponse{})
	if grpcstatus.Code(err) != codes.Unimplemented {
		w.w.t.Errorf("a method that is none: %v", err)
	}
}

func statusOf(code admit.Code) int { return status(code) }

func (w *codeWalk) operators() {
	w.hold("dead", "r1", 80)
	w.refused("no room yet", "dead", admit.TenantQuotaExceeded, reserveOf("r2", 50))
	w.w.kill(admit.Kill{Scope: "tenant:dead", On: true, Reason: "a test", Version: time.Now().UnixMicro()})
	w.w.eventually("killed", func() error {
		if got := w.overHTTP(w.w.keys["dead"], reserveOf("r2", 50)); got.code != "killed" {
			return fmt.Errorf("%v", got.raw)
		}
		return nil
	})
	w.refused("stopped, and out of dollars", "dead", admit.Killed, reserveOf("r2", 50))
	got := w.overHTTP(w.w.keys["dead"], ask{"Extend", "r1", object{}})
	if got.code != "ok" || got.raw["stop"] != true || got.raw["reason"] != "killed" {
		w.w.t.Errorf("a running call: %v", got.raw)
	}
}

// outages are never the caller's fault: not one of the calls answers 401, or anything else but 503. They come to a replica that
// does not wait long.
func (w *codeWalk) outages() {
	patient := w.both
	w.both = w.w.startBoth(func(c *Config) { c.Deadline = time.Second })
	w.w.must(syscall.Kill(w.w.redis.PID, syscall.SIGSTOP))
	resume := func() { _ = syscall.Kill(w.w.redis.PID, syscall.SIGCONT) }
	w.w.t.Cleanup(resume)
	w.refused("Redis hangs", "free", admit.StoreUnavailable, reserveOf("r9", 1))
	for _, a := range []ask{{"GetBudget", "", nil}, {"Settle", "nobody", object{"meters": object{"output_tokens": 1}}}, {"StartExecution", "", object{"agent_id": "a"}}} {
		w.refused("Redis hangs: "+a.method, "free", admit.StoreUnavailable, a)
	}
	got := w.overHTTP("", reserveOf("r9", 1))
	if got.http != http.StatusUnauthorized {
		w.w.t.Errorf("no credential while Redis hangs: %v", got.raw)
	}
	resume()
	w.both = patient
	w.w.eventually("Redis is back", func() error {
		if got := w.overHTTP(w.w.keys["free"], ask{"GetBudget", "", nil}); got.code != "ok" {
			return fmt.Errorf("%v", got.raw)
		}
		return nil
	})
	w.w.redisCommand("DEL w:{free}:s")
	w.refused("counters are lost", "free", admit.StoreRecovering, reserveOf("r9", 1))
}

// Goal: a defect is an internal error in both forms, and the process goes on.
func TestDefect(t *testing.T) {
	w := newWorld(t, one(contract()))
	b := w.startBoth()
	r := route{"GET /defect", byBody, func(context.Context, caller, http.ResponseWriter, *http.Request) (answer, error) { panic("on purpose") }}
	server := testServer(t, b.svc.serve(r))
	resp, err := http.Get(server)
	w.must(err)
	defer resp.Body.Close()
	if resp.StatusCode != 500 || resp.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("HTTP: %d %v", resp.StatusCode, resp.Header)
	}
	api := &grpcAPI{s: b.svc, codes: grpcCodes()}
	_, err = api.guarded(t.Context(), &admissionv1.GetBudgetRequest{}, "defect", func(context.Context, any) (any, error) { panic("on purpose") })
	st := grpcstatus.Convert(api.status(b.svc.failed(err), "acme"))
	if p := b.checkStatus(st); st.Code() != codes.Internal || p.GetCode() != string(codeInternal) {
		t.Errorf("gRPC: %v", st)
	}
}
