//go:build integration

package admission

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpccredentials "google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/gen/admissionv1"
	"github.com/weir-project/weir/pkg/identity"
	"github.com/weir-project/weir/pkg/obs"
	"github.com/weir-project/weir/pkg/testkit"
)

// with is a context with metadata.
func with(pairs ...string) context.Context {
	return metadata.NewOutgoingContext(context.Background(), metadata.Pairs(pairs...))
}

// Goal: a tenant comes from the same credentials as over HTTP.
func TestGRPCCredentials(t *testing.T) {
	w := newWorld(t, map[string]tenant.Contract{"acme": contract(), "beta": contract()})
	service := w.publishKey("acme", "beta")
	b := w.startBoth()
	client := admissionv1.NewAdmissionClient(b.conn)
	for _, c := range []struct {
		name   string
		pairs  []string
		want   codes.Code
		tenant string
	}{
		{"an API key", []string{"authorization", "Bearer " + w.keys["acme"]}, codes.OK, "acme"},
		{"its tenant named", []string{"authorization", "bearer " + w.keys["acme"], "x-weir-tenant", "acme"}, codes.OK, "acme"},
		{"another tenant", []string{"authorization", "Bearer " + w.keys["acme"], "x-weir-tenant", "beta"}, codes.PermissionDenied, ""},
		{"a service credential", []string{"authorization", "Bearer " + service, "x-weir-tenant", "beta"}, codes.OK, "beta"},
		{"a service credential without a choice", []string{"authorization", "Bearer " + service}, codes.InvalidArgument, ""},
		{"two", []string{"authorization", "Bearer " + w.keys["acme"], "authorization", "Bearer " + service}, codes.Unauthenticated, ""},
		{"two tenants", []string{"authorization", "Bearer " + service, "x-weir-tenant", "acme", "x-weir-tenant", "beta"}, codes.InvalidArgument, ""},
		{"none", nil, codes.Unauthenticated, ""},
		{"a wrong one", []string{"authorization", "Bearer wk_a_b"}, codes.Unauthenticated, ""},
		{"another scheme", []string{"authorization", "Basic " + w.keys["acme"]}, codes.Unauthenticated, ""},
	} {
		got, err := client.GetBudget(with(c.pairs...), &admissionv1.GetBudgetRequest{})
		if grpcstatus.Code(err) != c.want || got.GetTenantId() != c.tenant {
			t.Errorf("%s: %v %v", c.name, got, err)
		}
		if err != nil {
			b.checkStatus(grpcstatus.Convert(err))
		}
	}
}

// Goal: gRPC has the API's own TLS, and a client certificate is a credential there too.
func TestGRPCMutualTLS(t *testing.T) {
	acme := contract()
	acme.Identities = []string{"mtls:acme-batch"}
	w := newWorld(t, one(acme))
	ours, theirs := testkit.NewAuthority(t), testkit.NewAuthority(t)
	tomorrow := time.Now().Add(24 * time.Hour)
	cert, key, ca := ours.Files(ours.Issue("admission", tomorrow))
	files := &TLSFiles{Cert: cert, Key: key, ClientCA: ca}
	r := w.startUnready(withGRPC, func(c *Config) { c.TLS = files })
	ask := func(certificates ...tls.Certificate) error {
		conn, err := grpc.NewClient(r.svc.GRPCAddress(), grpc.WithTransportCredentials(grpccredentials.NewTLS(&tls.Config{RootCAs: ours.Pool(), Certificates: certificates})))
		w.must(err)
		defer conn.Close()
		budget, err := admissionv1.NewAdmissionClient(conn).GetBudget(t.Context(), &admissionv1.GetBudgetRequest{})
		if err == nil && budget.GetTenantId() != "acme" {
			t.Errorf("%v", budget)
		}
		return err
	}
	w.eventually("its certificate", func() error { return ask(ours.Issue("acme-batch", tomorrow)) })
	if err := ask(); grpcstatus.Code(err) != codes.Unauthenticated {
		t.Errorf("no certificate: %v", err)
	}
	if err := ask(ours.Issue("stranger", tomorrow)); grpcstatus.Code(err) != codes.PermissionDenied {
		t.Errorf("a stranger: %v", err)
	}
	if err := ask(theirs.Issue("acme-batch", tomorrow)); grpcstatus.Code(err) != codes.Unavailable {
		t.Errorf("another authority: %v", err)
	}
	plain := (&replica{w: w, svc: r.svc}).both()
	if _, err := admissionv1.NewAdmissionClient(plain.conn).GetBudget(t.Context(), &admissionv1.GetBudgetRequest{}); grpcstatus.Code(err) != codes.Unavailable {
		t.Errorf("without TLS: %v", err)
	}
}

// Goal: the bounds hold: the size of a message, fields that this version does not know, a deadline that has passed.
func TestGRPCBounds(t *testing.T) {
	w := newWorld(t, one(contract()))
	b := w.startBoth()
	client := admissionv1.NewAdmissionClient(b.conn)
	ctx := with("authorization", "Bearer "+w.keys["acme"])
	body := &admissionv1.SettleRequest{ReservationId: "r1", Usage: []byte(`"` + strings.Repeat("x", maxBody) + `"`)}
	_, err := client.Settle(ctx, body)
	if p := b.checkStatus(grpcstatus.Convert(err)); p.GetCode() != string(codeTooLarge) {
		t.Errorf("a large message: %v", err)
	}
	if _, err = client.SendEvents(ctx, &admissionv1.SendEventsRequest{}); err != nil { // as over HTTP: CloudEvents' batch may be empty
		t.Errorf("no events: %v", err)
	}
	_, err = client.SendEvents(ctx, &admissionv1.SendEventsRequest{Events: [][]byte{make([]byte, maxEventsBody/2), make([]byte, maxEventsBody/2), {1}}})
	if p := b.checkStatus(grpcstatus.Convert(err)); p.GetCode() != string(codeTooLarge) {
		t.Errorf("large events: %v", err)
	}
	_, err = client.SendEvents(ctx, &admissionv1.SendEventsRequest{Events: [][]byte{make([]byte, maxGRPCMessage)}})
	if grpcstatus.Code(err) != codes.ResourceExhausted {
		t.Errorf("a message that is not read: %v", err)
	}
	newer := &admissionv1.ReserveRequest{ReservationId: "r1", Provider: "openai", Model: "flat", Estimate: map[string]string{"max_output_tokens": "1"}}
	newer.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 900, protowire.VarintType), 1))
	_, err = client.Reserve(ctx, newer)
	if p := b.checkStatus(grpcstatus.Convert(err)); p.GetCode() != "invalid_argument" {
		t.Errorf("an unknown field: %v", err)
	}
	results, err := client.ReserveBatch(ctx, &admissionv1.ReserveBatchRequest{Reservations: []*admissionv1.ReserveRequest{newer}})
	if err != nil || results.GetResults()[0].GetProblem().GetCode() != "invalid_argument" {
		t.Errorf("an unknown field in a batch: %v %v", results, err)
	}
	late, cancel := context.WithDeadline(ctx, time.Now().Add(-time.Second))
	defer cancel()
	if _, err = client.GetBudget(late, &admissionv1.GetBudgetRequest{}); grpcstatus.Code(err) != codes.DeadlineExceeded {
		t.Errorf("a deadline in the past: %v", err)
	}
}

// Goal: health says what /readyz says, and reflection lists the API.
func TestGRPCHealthAndReflection(t *testing.T) {
	w := newWorld(t, one(contract()))
	b := w.startBoth()
	health := grpc_health_v1.NewHealthClient(b.conn)
	is := func(want grpc_health_v1.HealthCheckResponse_ServingStatus) {
		t.Helper()
		for _, service := range []string{"", "weir.v1.Admission"} {
			w.eventually(service+want.String(), func() error {
				got, err := health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: service})
				if err == nil && got.GetStatus() != want {
					err = grpcstatus.Error(codes.Unknown, got.GetStatus().String())
				}
				return err
			})
		}
	}
	is(grpc_health_v1.HealthCheckResponse_SERVING)
	stream, err := grpc_reflection_v1.NewServerReflectionClient(b.conn).ServerReflectionInfo(t.Context())
	w.must(err)
	w.must(stream.Send(&grpc_reflection_v1.ServerReflectionRequest{MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{}}))
	list, err := stream.Recv()
	w.must(err)
	var names []string
	for _, s := range list.GetListServicesResponse().GetService() {
		names = append(names, s.GetName())
	}
	if !slices.Contains(names, "weir.v1.Admission") {
		t.Errorf("reflection lists %v", names)
	}
	w.must(syscall.Kill(w.redis.PID, syscall.SIGSTOP))
	t.Cleanup(func() { _ = syscall.Kill(w.redis.PID, syscall.SIGCONT) })
	is(grpc_health_v1.HealthCheckResponse_NOT_SERVING)
}

// Goal: at its end the server finishes the call in flight, takes no new one, and is not held up by a stream that never ends.
// Method: the call waits for a key set that answers once the server is stopping.
func TestGRPCStopsInOrder(t *testing.T) {
	w := newWorld(t, one(contract()))
	entered, leave := make(chan struct{}), make(chan struct{})
	keys := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		close(entered)
		<-leave
		rw.WriteHeader(http.StatusInternalServerError)
	}))
	t.Cleanup(keys.Close)
	b := w.startBoth(func(c *Config) {
		c.JWKSURL, c.JWT, c.Deadline = keys.URL, identity.JWTConfig{Issuer: "idp", Audience: "weir", TenantClaim: "tenant"}, patience
	})
	client := admissionv1.NewAdmissionClient(b.conn)
	watch, err := grpc_health_v1.NewHealthClient(b.conn).Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	w.must(err)
	_, err = watch.Recv()
	w.must(err)
	inFlight := make(chan error, 1)
	go func() {
		token := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"EdDSA","kid":"k"}`)) + ".e30.AAAA"
		_, err := client.GetBudget(with("authorization", "Bearer "+token), &admissionv1.GetBudgetRequest{})
		inFlight <- err
	}()
	<-entered
	stopped := make(chan struct{})
	go func() {
		b.stop() // an error, where the server had to be cut off from what goes on
		close(stopped)
	}()
	w.eventually("no new connection", func() error {
		conn, err := net.Dial("tcp", b.svc.GRPCAddress())
		if err == nil {
			return errors.Join(errors.New("still listening"), conn.Close())
		}
		return nil
	})
	close(leave)
	if p := b.checkStatus(grpcstatus.Convert(<-inFlight)); p.GetCode() != "budget_store_unavailable" {
		t.Errorf("the call in flight: %v", p)
	}
	<-stopped
	if _, err := client.GetBudget(with("authorization", "Bearer "+w.keys["acme"]), &admissionv1.GetBudgetRequest{}); grpcstatus.Code(err) != codes.Unavailable {
		t.Errorf("after the end: %v", err)
	}
}

// Goal: no port is taken that nobody asked for, and one that is taken is told at the start.
func TestGRPCPort(t *testing.T) {
	w := newWorld(t, one(contract()))
	r := w.start()
	if r.svc.GRPCAddress() != "" {
		t.Errorf("gRPC at %s", r.svc.GRPCAddress())
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	w.must(err)
	defer taken.Close()
	cfg := w.config()
	cfg.GRPC = taken.Addr().String()
	deps := r.svc.deps
	deps.Registry = obs.NewRegistry()
	if _, err := New(t.Context(), cfg, deps); err == nil || !strings.Contains(err.Error(), "listen for gRPC") {
		t.Errorf("a port that is taken: %v", err)
	}
}
