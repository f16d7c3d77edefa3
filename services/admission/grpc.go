package admission

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpccredentials "google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/weir-project/weir/pkg/gen/admissionv1"
	"github.com/weir-project/weir/pkg/identity"
)

// Bounds of the gRPC listener. What one message of a call may have is checked after it was identified (grpc_call.go); this
// is what is read at all: the largest body of HTTP, with what Protobuf adds.
const (
	maxGRPCMessage = maxEventsBody + 64<<10
	maxGRPCStreams = 1024 // calls in flight on one connection; the client waits beyond
	maxGRPCHeaders = 64 << 10
	grpcHandshake  = 5 * time.Second
	grpcIdle       = 2 * time.Minute
	grpcPing       = 10 * time.Second // the most often that a client may ask whether the connection lives
)

// healthInterval is how stale the answer of the health service may be.
const healthInterval = time.Second

// listenGRPC takes the port of gRPC, where there is to be one.
func (s *Service) listenGRPC(ctx context.Context) error {
	if s.cfg.GRPC == "" {
		return nil
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.cfg.GRPC)
	if err != nil {
		return fmt.Errorf("listen for gRPC: %w", err)
	}
	s.grpcListener = l
	if s.cfg.TLS != nil {
		s.grpcTLS, err = identity.ServerTLS(s.cfg.TLS.Cert, s.cfg.TLS.Key, s.cfg.TLS.ClientCA, s.deps.Now)
	}
	return err
}

// GRPCAddress is where gRPC listens, host:port; empty where it does not.
func (s *Service) GRPCAddress() string {
	if s.grpcListener == nil {
		return ""
	}
	return s.grpcListener.Addr().String()
}

// serveGRPC answers until ctx ends. Then it takes no new calls, lets those in flight finish for up to requestGrace, and ends
// the streams of health and reflection, which would never end by themselves.
func (s *Service) serveGRPC(ctx context.Context) error {
	state := health.NewServer()
	server := s.newGRPC(ctx, state, s.grpcTLS)
	go s.reportHealth(ctx, state)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(s.grpcListener) }()
	select {
	case err := <-ended:
		return fmt.Errorf("gRPC server on %s: %w", s.grpcListener.Addr(), err)
	case <-ctx.Done():
	}
	state.Shutdown()
	stopped := make(chan struct{})
	go func() { server.GracefulStop(); close(stopped) }()
	grace := time.NewTimer(requestGrace)
	defer grace.Stop()
	select {
	case <-stopped:
		return nil
	case <-grace.C:
		server.Stop()
		<-stopped
		return fmt.Errorf("gRPC server on %s: calls in flight did not end within %s", s.grpcListener.Addr(), requestGrace)
	}
}

// newGRPC is the server with the API, health and reflection.
func (s *Service) newGRPC(ctx context.Context, state *health.Server, secure *tls.Config) *grpc.Server {
	api := &grpcAPI{s: s, codes: grpcCodes()}
	options := []grpc.ServerOption{
		grpc.ForceServerCodecV2(lenient{encoding.GetCodecV2(proto.Name)}), grpc.UnaryInterceptor(api.intercept), grpc.StreamInterceptor(endingWith(ctx)),
		grpc.MaxRecvMsgSize(maxGRPCMessage), grpc.MaxConcurrentStreams(maxGRPCStreams), grpc.MaxHeaderListSize(maxGRPCHeaders),
		grpc.ConnectionTimeout(grpcHandshake), grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: grpcIdle}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: grpcPing, PermitWithoutStream: true}),
	}
	if secure != nil {
		options = append(options, grpc.Creds(grpccredentials.NewTLS(secure)))
	}
	server := grpc.NewServer(options...)
	admissionv1.RegisterAdmissionServer(server, api)
	grpc_health_v1.RegisterHealthServer(server, state)
	reflection.Register(server)
	return server
}

// endingWith ends every stream when ctx does.
func endingWith(ctx context.Context) grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
		done := make(chan error, 1)
		go func() { done <- handle(srv, stream) }()
		select {
		case err := <-done:
			return err
		case <-ctx.Done():
			return grpcstatus.Error(codes.Unavailable, "The server is stopping.")
		}
	}
}

// reportHealth tells the health service what /readyz would answer, for the server and for the API, until ctx ends.
func (s *Service) reportHealth(ctx context.Context, state *health.Server) {
	tick := time.NewTicker(healthInterval)
	defer tick.Stop()
	for {
		serving := grpc_health_v1.HealthCheckResponse_SERVING
		if len(s.observe.Failing(ctx)) > 0 {
			serving = grpc_health_v1.HealthCheckResponse_NOT_SERVING
		}
		state.SetServingStatus("", serving)
		state.SetServingStatus(admissionv1.Admission_ServiceDesc.ServiceName, serving)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// isAPI reports whether a method is one of the API, and not of health or reflection.
func isAPI(method string) bool {
	return strings.HasPrefix(method, "/"+admissionv1.Admission_ServiceDesc.ServiceName+"/")
}
