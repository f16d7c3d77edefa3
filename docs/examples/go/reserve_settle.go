// Reserve -> call -> settle over gRPC.
//
//	eval "$(weir env)"; WEIR_KEY=wk_... go run docs/examples/go/reserve_settle.go
//
// What to copy is the type weir and the function complete; the provider below is a stand-in that needs no network.
package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	weirv1 "github.com/weir-project/weir/pkg/gen/admissionv1"
)

// errQuota: the tenant's budget is used up. Retrying cannot help: tell the user, and stop.
var errQuota = errors.New("budget used up")

// The ways in which the stand-in of a provider fails: before any token, and in the middle of a stream.
var (
	errProvider  = errors.New("overloaded_error")
	errStreamCut = errors.New("cut")
)

// weir asks admission, with the key in the metadata. Behind TLS, use credentials.NewTLS and per-RPC credentials instead.
type weir struct {
	weirv1.AdmissionClient
	key string
	// onWait is called whenever a call is told to wait.
	onWait func()
}

func (w weir) context(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+w.key), cancel
}

// patiently repeats a call for as long as the answer says that a retry makes sense. The ids stay the same, so a repeat
// never counts twice.
func patiently[R any](ctx context.Context, w weir, attempts int, call func(context.Context) (R, error)) (R, error) {
	for try := 1; ; try++ {
		asking, cancel := w.context(ctx)
		answer, err := call(asking)
		cancel()
		if err == nil || try == attempts {
			return answer, err
		}
		code, limit, wait, retry := explain(err)
		switch {
		case code == "tenant_quota_exceeded":
			return answer, fmt.Errorf("%w: %s", errQuota, status.Convert(err).Message())
		case !retry:
			return answer, err
		}
		fmt.Println("waiting", code, limit)
		w.onWait()
		select {
		case <-time.After(min(wait, 5*time.Second)):
		case <-ctx.Done():
			return answer, ctx.Err()
		}
	}
}

// explain reads the details of an error. An answer that was lost has none: ask again under the same id.
func explain(err error) (code, limit string, wait time.Duration, retry bool) {
	wait, retry = 500*time.Millisecond, true
	for _, detail := range status.Convert(err).Details() {
		switch d := detail.(type) {
		case *errdetails.ErrorInfo:
			code, limit, retry = d.GetReason(), d.GetMetadata()["limit"], false
		}
	}
	for _, detail := range status.Convert(err).Details() {
		if d, ok := detail.(*errdetails.RetryInfo); ok {
			wait, retry = d.GetRetryDelay().AsDuration(), true
		}
	}
	return code, limit, wait, retry
}

func (w weir) reserve(ctx context.Context, id string, in, out int) (*weirv1.ReserveResponse, error) {
	request := &weirv1.ReserveRequest{ReservationId: id, Provider: "openai", Model: "gpt-4o", AgentId: "example-go",
		Estimate: map[string]string{"input_tokens": fmt.Sprint(in), "max_output_tokens": fmt.Sprint(out)}}
	return patiently(ctx, w, 10, func(ctx context.Context) (*weirv1.ReserveResponse, error) { return w.Reserve(ctx, request) })
}

// settle reports what was used. It must arrive, so it is repeated until Weir has it.
func (w weir) settle(ctx context.Context, held *weirv1.ReserveResponse, report *weirv1.SettleRequest) (*weirv1.SettleResponse, error) {
	report.ReservationId, report.Receipt = held.GetReservationId(), proto.String(held.GetReceipt())
	return patiently(ctx, w, 20, func(ctx context.Context) (*weirv1.SettleResponse, error) { return w.Settle(ctx, report) })
}

// provider is one call of a model: its answer's id and its usage object.
type provider func(model string, in, out int) (id string, usage []byte, err error)

// complete is one call of an agent: ask, call, report. Whatever happens to the call, the reservation is ended.
func (w weir) complete(ctx context.Context, call provider, in, out int) (*weirv1.SettleResponse, error) {
	held, err := w.reserve(ctx, newID(), in, out)
	if err != nil {
		return nil, err
	}
	// The model granted: when the budget runs low it is the cheaper one of the plan, and that is the one to call.
	id, usage, err := call(held.GetModel(), in, out)
	switch {
	case errors.Is(err, errProvider): // nothing was generated: a FAILED row at $0
		return w.settle(ctx, held, &weirv1.SettleRequest{Status: "FAILED", ErrorCode: err.Error()})
	case err != nil: // no usage: the estimate is charged, and one correction may follow
		return w.settle(ctx, held, &weirv1.SettleRequest{Status: "PARTIAL"})
	}
	return w.settle(ctx, held, &weirv1.SettleRequest{Status: "SUCCESS", Api: "chat.completions", Usage: usage, ResponseId: id})
}

func newID() string {
	raw := make([]byte, 16)
	_, _ = rand.Read(raw) // never fails
	return "go-" + hex.EncodeToString(raw)
}

func good(_ string, in, out int) (string, []byte, error) {
	return newID(), fmt.Appendf(nil, `{"prompt_tokens":%d,"completion_tokens":%d}`, in, out/2), nil
}

func down(string, int, int) (string, []byte, error) { return "", nil, errProvider }

func cut(string, int, int) (string, []byte, error) { return "", nil, errStreamCut }

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	conn, err := grpc.NewClient(os.Getenv("WEIR_GRPC"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	w := weir{weirv1.NewAdmissionClient(conn), os.Getenv("WEIR_KEY"), func() {}}
	show := func(name string, call provider) error {
		a, err := w.complete(ctx, call, 420, 600)
		if err == nil {
			fmt.Println(name, a.GetState(), a.GetStatus(), a.GetCostUsd(), map[bool]string{true: "estimated"}[a.GetEstimated()])
		}
		return err
	}
	if err := errors.Join(show("ok", good), show("error", down), show("cut", cut)); err != nil {
		return err
	}

	// A tenant with one call at a time: the second waits until the first has settled, which ends when the second waits.
	held, err := w.reserve(ctx, newID(), 100, 100)
	if err != nil {
		return err
	}
	secondWaits, settled := make(chan struct{}), make(chan error, 1)
	w.onWait = sync.OnceFunc(func() { close(secondWaits) })
	go func() {
		<-secondWaits
		_, err := w.settle(ctx, held, &weirv1.SettleRequest{Api: "chat.completions", Usage: []byte(`{"prompt_tokens":100,"completion_tokens":10}`)})
		settled <- err
	}()
	if err := errors.Join(show("waited", good), <-settled); err != nil {
		return err
	}

	// And then until the budget is gone. The provider is not called for the one that is refused.
	for n := range 100 {
		if _, err := w.complete(ctx, good, 420, 600); errors.Is(err, errQuota) {
			fmt.Println("quota", n, err)
			return nil
		} else if err != nil {
			return err
		}
	}
	return errors.New("no quota in sight")
}
