//go:build integration

package admission

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/gen/admissionv1"
)

// withGRPC is a change of a replica's configuration.
func withGRPC(c *Config) { c.GRPC = "127.0.0.1:0" }

// both asks one replica in both protocols.
type both struct {
	*replica
	conn     *grpc.ClientConn
	contract *contractOf
}

func (w *world) startBoth(change ...func(*Config)) *both {
	w.t.Helper()
	r := w.start(append(change, withGRPC)...)
	return r.both()
}

func (r *replica) both() *both {
	r.w.t.Helper()
	conn, err := grpc.NewClient(r.svc.GRPCAddress(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	r.w.must(err)
	r.w.t.Cleanup(func() { _ = conn.Close() })
	return &both{replica: r, conn: conn, contract: newContract(r.w.t)}
}

// described fails where OpenAPI says otherwise than what was asked and answered.
func (b *both) described(method, path string, body any, headers []string, status int, out object, header http.Header) {
	b.w.t.Helper()
	asked, err := json.Marshal(body)
	b.w.must(err)
	if body == nil {
		asked = nil
	} else if raw, ok := body.(string); ok {
		asked = []byte(raw)
	}
	answer, err := json.Marshal(out)
	b.w.must(err)
	if status == http.StatusNoContent {
		answer = nil
	}
	h := http.Header{}
	for i := 0; i+1 < len(headers); i += 2 {
		h.Set(headers[i], headers[i+1])
	}
	taken := status < 300 && !strings.Contains(string(answer), `"problem":`) // a batch is taken with what is wrong in it
	if err := b.contract.check(method, path, h, asked, taken, status, header, answer); err != nil {
		b.w.t.Errorf("%s %s: not as /openapi.json has it: %v\n%s\n%s", method, path, err, asked, answer)
	}
}

// ask is one request in words of neither protocol: the method of gRPC, the id that HTTP has in its path, and the members.
type ask struct {
	method string
	id     string
	body   object
}

// heard is an answer in words of neither: the code ("ok" for none) and the members, made comparable.
type heard struct {
	code  string
	body  object
	raw   object // as it came, with times, tokens and receipts
	rate  string
	retry bool
	http  int        // HTTP's status
	grpc  codes.Code // gRPC's
}

// paths is the HTTP call of each method; %s is the id.
func paths() map[string]string {
	return map[string]string{
		"StartExecution": "POST /v1/executions", "CloseExecution": "POST /v1/executions/%s/close", "Reserve": "POST /v1/reservations",
		"ReserveBatch": "POST /v1/reservations:batch", "Settle": "POST /v1/reservations/%s/settle", "Release": "POST /v1/reservations/%s/release",
		"Extend": "POST /v1/reservations/%s/extend", "GetReservation": "GET /v1/reservations/%s", "GetBudget": "GET /v1/budget", "SendEvents": "POST /v1/events",
	}
}

// overHTTP asks over HTTP.
func (b *both) overHTTP(key string, a ask, headers ...string) heard {
	b.w.t.Helper()
	method, path, _ := strings.Cut(paths()[a.method], " ")
	if strings.Contains(path, "%s") {
		path = fmt.Sprintf(path, a.id)
	}
	var body any
	switch {
	case method == "GET":
	case a.method == "SendEvents":
		body, headers = a.body["events"], append(headers, "Content-Type", "application/cloudevents-batch+json")
	default:
		body = a.body
	}
	status, out, header := b.do(method, path, key, body, headers...)
	b.described(method, path, body, headers, status, out, header)
	if status == http.StatusNoContent {
		out = object{}
	}
	t := heard{code: "ok", raw: out, rate: header.Get("RateLimit-Policy") + " " + header.Get("RateLimit"), retry: header.Get("Retry-After") != "", http: status}
	if status >= 400 {
		t.code = fmt.Sprint(out["code"])
		if (out["retry_after_ms"] != nil) != t.retry {
			b.w.t.Errorf("%s: Retry-After %q beside %v", t.code, header.Get("Retry-After"), out)
		}
	}
	t.body = comparable(out)
	return t
}

// overGRPC asks over gRPC, with a message made of the same members.
func (b *both) overGRPC(key string, a ask, headers ...string) heard {
	b.w.t.Helper()
	in, out := messages(b.w.t, a)
	if key != "" {
		headers = append(headers, "authorization", "Bearer "+key)
	}
	ctx := metadata.NewOutgoingContext(context.Background(), metadata.Pairs(headers...))
	var header metadata.MD
	err := b.conn.Invoke(ctx, "/weir.v1.Admission/"+a.method, in, out, grpc.Header(&header))
	t := heard{code: "ok", rate: strings.Join(header.Get("ratelimit-policy"), "") + " " + strings.Join(header.Get("ratelimit"), "")}
	if err != nil {
		p := b.checkStatus(grpcstatus.Convert(err))
		t.code, t.http, t.retry, t.grpc = p.GetCode(), int(p.GetStatus()), p.GetRetryAfterMs() > 0, grpcstatus.Code(err)
		out = p
	}
	t.raw = asJSON(b.w.t, out)
	if inner, ok := t.raw["reservation"].(object); ok && a.method != "Reserve" {
		t.raw = inner // HTTP answers with it alone
	}
	t.body = comparable(t.raw)
	return t
}

// checkStatus holds the details of a status against each other and against the table, and returns the problem.
func (b *both) checkStatus(st *grpcstatus.Status) *admissionv1.Problem {
	b.w.t.Helper()
	p := &admissionv1.Problem{}
	var info *errdetails.ErrorInfo
	var retry *errdetails.RetryInfo
	var quota *errdetails.QuotaFailure
	for _, d := range st.Details() {
		switch d := d.(type) {
		case *admissionv1.Problem:
			p = d
		case *errdetails.ErrorInfo:
			info = d
		case *errdetails.RetryInfo:
			retry = d
		case *errdetails.QuotaFailure:
			quota = d
		}
	}
	code := admit.Code(p.GetCode())
	switch {
	case info.GetReason() != p.GetCode() || info.GetDomain() != "weir" || p.GetCode() == "":
		b.w.t.Errorf("ErrorInfo %v beside %v of %v", info, p, st)
	case st.Code() != grpcCodes()[code]:
		b.w.t.Errorf("%s is %s, the table says %s", code, st.Code(), grpcCodes()[code])
	case (retry != nil) != (p.GetRetryAfterMs() > 0) || retry.GetRetryDelay().AsDuration().Milliseconds() != p.GetRetryAfterMs():
		b.w.t.Errorf("%s: RetryInfo %v beside %v", code, retry, p)
	case (quota != nil) != (code == admit.TenantQuotaExceeded):
		b.w.t.Errorf("%s: QuotaFailure %v", code, quota)
	}
	return p
}

// messages makes the request of a call, and room for its answer.
func messages(t *testing.T, a ask) (in, out proto.Message) {
	t.Helper()
	method := admissionv1.File_weir_v1_admission_proto.Services().ByName("Admission").Methods().ByName(protoreflect.Name(a.method))
	kind := func(d protoreflect.MessageDescriptor) proto.Message {
		found, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
		if err != nil {
			t.Fatal(err)
		}
		return found.New().Interface()
	}
	in, out = kind(method.Input()), kind(method.Output())
	body := object{}
	for name, value := range a.body {
		body[name] = forProto(name, value)
	}
	if strings.Contains(paths()[a.method], "%s") {
		body[map[bool]string{true: "root_execution_id", false: "reservation_id"}[a.method == "CloseExecution"]] = a.id
	}
	raw, err := json.Marshal(body)
	if err == nil {
		err = protojson.Unmarshal(raw, in)
	}
	if err != nil {
		t.Fatalf("%s of %s: %v", a.method, raw, err)
	}
	return in, out
}

// forProto gives a member the shape that it has in Protobuf: quantities are text, and raw JSON is bytes.
func forProto(name string, value any) any {
	encoded := func(v any) string {
		raw, _ := json.Marshal(v)
		return base64.StdEncoding.EncodeToString(raw)
	}
	switch list, _ := value.([]any); name {
	case "estimate", "meters":
		out := object{}
		for meter, n := range value.(object) {
			out[meter] = fmt.Sprint(n)
		}
		return out
	case "usage":
		return encoded(value)
	case "events":
		var out []string
		for _, v := range list {
			out = append(out, encoded(v))
		}
		return out
	case "reservations":
		var out []any
		for _, v := range list {
			one := object{}
			for inner, v := range v.(object) {
				one[inner] = forProto(inner, v)
			}
			out = append(out, one)
		}
		return out
	default:
		return value
	}
}

func asJSON(t *testing.T, m proto.Message) object {
	t.Helper()
	raw, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	out := object{}
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// comparable drops what Protobuf does not write (zeroes), writes numbers as text, and replaces what differs from one moment
// to the next by its kind.
func comparable(o object) object {
	out, _ := leaf("", o).(object)
	if out == nil {
		out = object{}
	}
	return out
}

func leaf(name string, v any) any {
	switch v := v.(type) {
	case object:
		out := object{}
		for k, inner := range v {
			if inner = leaf(k, inner); inner != nil {
				out[k] = inner
			}
		}
		if len(out) == 0 && name != "execution" {
			return nil
		}
		return out
	case []any:
		var out []any
		for _, inner := range v {
			out = append(out, leaf("", inner))
		}
		if len(out) == 0 {
			return nil
		}
		return out
	case bool:
		if !v || name == "replayed" { // HTTP says it by 200
			return nil
		}
		return "true"
	case nil:
		return nil
	}
	text := fmt.Sprint(v)
	switch {
	case text == "" || text == "0":
		return nil
	case name == "token" || name == "receipt" || name == "retry_after_ms" || strings.HasSuffix(name, "_at") || name == "as_of":
		return "<" + name + ">"
	}
	return moment.ReplaceAllString(text, "<moment>")
}

// moment is Unix nanoseconds, as they stand in the ids of events.
var moment = regexp.MustCompile(`\b1[0-9]{18}\b`)

// testServer is a handler at an address.
func testServer(t *testing.T, h http.Handler) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}
