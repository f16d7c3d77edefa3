package admission

import (
	"bytes"
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpccredentials "google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/gen/admissionv1"
)

// codeDeadline is how the metrics name a gRPC call whose deadline had passed before anything began.
const codeDeadline = "deadline_exceeded"

// grpcAPI is the API over gRPC. It decodes, calls and encodes; what a call does, HTTP and gRPC have in common.
type grpcAPI struct {
	admissionv1.UnimplementedAdmissionServer
	s     *Service
	codes map[admit.Code]codes.Code
}

// callerKey is where a call finds its caller.
type callerKey struct{}

func callerIn(ctx context.Context) caller {
	c, _ := ctx.Value(callerKey{}).(caller)
	return c
}

// intercept wraps every call of the API: identify, call, answer, measure. A call is not begun whose deadline has passed when
// it arrives, or passes while its credential is verified. One that was begun is finished, and answered with what was done,
// whether or not its client still waits: half of a settle would be worse than a settle that nobody has heard of, which the
// client finds by repeating it.
func (g *grpcAPI) intercept(ctx context.Context, in any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (out any, err error) {
	if !isAPI(info.FullMethod) {
		return handle(ctx, in)
	}
	begin, code := g.s.deps.Now(), codeGood
	defer func() { g.s.metrics.answered(info.FullMethod, code, g.s.deps.Now().Sub(begin)) }()
	late := func() bool {
		end, bounded := ctx.Deadline()
		return bounded && !g.s.deps.Now().Before(end)
	}
	tooLate := grpcstatus.Error(codes.DeadlineExceeded, "The deadline had passed before the call was begun; nothing was done.")
	if late() {
		code = codeDeadline
		return nil, tooLate
	}
	detached := context.WithoutCancel(ctx)
	given := grpcCredentials(ctx)
	given.ends = info.FullMethod == admissionv1.Admission_Settle_FullMethodName || info.FullMethod == admissionv1.Admission_Release_FullMethodName
	c, err := g.s.identify(detached, given)
	if err == nil && late() {
		code = codeDeadline
		return nil, tooLate
	}
	if err == nil {
		out, err = g.guarded(context.WithValue(detached, callerKey{}, c), in, info.FullMethod, handle)
	}
	if err != nil {
		p := g.s.failed(err)
		code = string(p.Code)
		return nil, g.status(p, c.tenant)
	}
	return out, nil
}

// guarded checks the message as a whole, and turns a bug into an internal error and a log line.
func (g *grpcAPI) guarded(ctx context.Context, in any, method string, handle grpc.UnaryHandler) (out any, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			g.s.deps.Log.Error("panic in a handler", "path", method, "cause", cause)
			out, err = nil, problem(codeInternal, "A defect of this service; it was logged.")
		}
	}()
	if message, ok := in.(proto.Message); ok {
		if p := checkMessage(message); p != nil {
			return nil, p
		}
	}
	return handle(ctx, in)
}

// checkMessage holds a message to the bound of a body, and refuses fields that this version does not know: what a newer
// client asks for must not be passed over in silence.
func checkMessage(m proto.Message) *Problem {
	most := maxBody
	if _, ok := m.(*admissionv1.SendEventsRequest); ok {
		most = maxGRPCMessage // its events are counted by themselves
	}
	if proto.Size(m) > most {
		return problem(codeTooLarge, fmt.Sprintf("The message is larger than %d bytes.", most))
	}
	switch unknown := m.ProtoReflect().GetUnknown(); {
	case bytes.Equal(unknown, unreadable()):
		return invalid("", "The message is not valid Protobuf, or a text in it is not valid UTF-8.")
	case len(unknown) > 0:
		return invalid("", "The message has a field that this server does not know.")
	}
	return nil
}

// grpcCredentials are those of a call's metadata and of its connection.
func grpcCredentials(ctx context.Context) credentials {
	given, _ := metadata.FromIncomingContext(ctx)
	first := func(name string) string {
		if values := given.Get(name); len(values) > 0 {
			return values[0]
		}
		return ""
	}
	out := credentials{authorization: first("authorization"), tenant: first(tenantHeader), language: first("accept-language"),
		twice: repeatedHeader(given.Get("Authorization"), given.Get(tenantHeader))}
	if p, ok := peer.FromContext(ctx); ok {
		if secure, ok := p.AuthInfo.(grpccredentials.TLSInfo); ok {
			out.tls = &secure.State
		}
	}
	return out
}

// answered encodes what a call gave back. The RateLimit fields go with refusals too.
func answered[R any](ctx context.Context, a answer, err error, encode func(answer) (R, error)) (R, error) {
	if fields := a.rates.metadata(); fields != nil {
		_ = grpc.SetHeader(ctx, fields) // fails only once headers are sent, which nothing here does
	}
	if err != nil {
		var none R
		return none, err
	}
	out, err := encode(a)
	if err != nil {
		return out, problem(codeInternal, "The answer does not encode: "+err.Error())
	}
	return out, nil
}
