package admission

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/weir-project/weir/pkg/gen/admissionv1"
)

// fakeStores is the API over gRPC on a store that admits without being asked.
type fakeStores struct {
	*grpcAPI
	bench *reserveBench
}

func (f fakeStores) Reserve(ctx context.Context, in *admissionv1.ReserveRequest) (*admissionv1.ReserveResponse, error) {
	req, p := reserveRequestOf(in)
	if p != nil {
		return nil, p
	}
	a, err := f.bench.call(ctx, callerIn(ctx), req)
	return answered(ctx, a, err, reserveResponse)
}

// overGRPC is a client on a connection of its own, and the request that the body of HTTP makes.
func (r *reserveBench) overGRPC(b testing.TB) (admissionv1.AdmissionClient, *admissionv1.ReserveRequest, context.Context) {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	api := fakeStores{&grpcAPI{s: r.service, codes: grpcCodes()}, r}
	server := grpc.NewServer(grpc.ForceServerCodecV2(lenient{encoding.GetCodecV2("proto")}), grpc.UnaryInterceptor(api.intercept))
	admissionv1.RegisterAdmissionServer(server, api)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = conn.Close()
		server.Stop()
		<-ended
	})
	var req reserveRequest
	if err := json.Unmarshal([]byte(r.body), &req); err != nil {
		b.Fatal(err)
	}
	in := &admissionv1.ReserveRequest{ReservationId: req.ReservationID, Provider: req.Provider, Model: req.Model, Effect: req.Effect,
		LeaseSeconds: req.LeaseSeconds, Estimate: map[string]string{}}
	if req.ExecutionToken != "" {
		in.ExecutionToken = proto.String(string(req.ExecutionToken))
	}
	for name, n := range req.Estimate {
		in.Estimate[name] = n.String()
	}
	return admissionv1.NewAdmissionClient(conn), in, metadata.AppendToOutgoingContext(context.Background(), "authorization", r.authorization)
}

// overHTTP answers on a port, for a client that keeps its connection.
func (r *reserveBench) overHTTP(b testing.TB) (ask func() int) {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := &http.Server{Handler: r.api, ReadHeaderTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	client := &http.Client{Transport: &http.Transport{}}
	b.Cleanup(func() {
		client.CloseIdleConnections()
		_ = server.Close()
		<-ended
	})
	return func() int {
		req, err := http.NewRequest(http.MethodPost, "http://"+l.Addr().String()+"/v1/reservations", bytes.NewReader([]byte(r.body)))
		if err != nil {
			b.Fatal(err)
		}
		req.Header.Set("Authorization", r.authorization)
		resp, err := client.Do(req)
		if err != nil {
			b.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		return resp.StatusCode
	}
}

// BenchmarkOverTheWire is a reservation over a connection, without a store, by one client after the other: what client and
// server take together, over HTTP and over gRPC.
func BenchmarkOverTheWire(b *testing.B) {
	r := newReserveBench(b, false)
	b.Run("http", func(b *testing.B) {
		ask := r.overHTTP(b)
		b.ReportAllocs()
		for b.Loop() {
			if status := ask(); status != http.StatusCreated {
				b.Fatal(status)
			}
		}
	})
	b.Run("grpc", func(b *testing.B) {
		client, in, ctx := r.overGRPC(b)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := client.Reserve(ctx, in); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// Goal: a call whose deadline passes before it is begun does nothing and says so; one that was begun is finished, and its
// context does not end with its client.
func TestDeadlineOverGRPC(t *testing.T) {
	r := newReserveBench(t, false)
	_, in, _ := r.overGRPC(t)
	credential := metadata.NewIncomingContext(t.Context(), metadata.Pairs("authorization", r.authorization))
	arrived := time.Now()
	for _, c := range []struct {
		name string
		// passesAfter is how often the clock is read before the deadline has passed.
		passesAfter int
		begun       bool
		want        codes.Code
	}{
		{"passed when it arrived", 1, false, codes.DeadlineExceeded},
		{"passes while the credential is verified", 3, false, codes.DeadlineExceeded},
		{"passes while it is served", 1000, true, codes.OK},
	} {
		ctx, cancel := context.WithDeadline(credential, arrived.Add(time.Hour))
		read, begun := 0, false
		r.service.deps.Now = func() time.Time {
			if read++; read > c.passesAfter {
				return arrived.Add(2 * time.Hour)
			}
			return arrived
		}
		api := &grpcAPI{s: r.service, codes: grpcCodes()}
		out, err := api.intercept(ctx, in, &grpc.UnaryServerInfo{FullMethod: admissionv1.Admission_Reserve_FullMethodName}, func(ctx context.Context, in any) (any, error) {
			begun, read = true, c.passesAfter
			cancel()
			return "done", ctx.Err()
		})
		cancel()
		if grpcstatus.Code(err) != c.want || begun != c.begun || c.begun && out != "done" {
			t.Errorf("%s: begun %v, %v, %v", c.name, begun, out, err)
		}
	}
}
