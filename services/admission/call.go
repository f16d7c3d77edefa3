package admission

import (
	"context"

	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/obs"
)

// A call of the API is a method of Service that knows no protocol: (ctx, caller, request) → (answer, error), where the
// request is one of the structs of wire.go, decoded but not yet checked, and the error is a *Problem or one of a store's
// (storeProblem makes a *Problem of it). HTTP (routes.go, server.go) and gRPC decode, call, and encode; nothing else.

// answer is what a call gives back. Beside an error only its rates count.
type answer struct {
	// status is HTTP's: 201 where something was made, 200 where it was there already or was only read, 204 without a body.
	status int
	// body is one of the structs of wire.go, or its JSON ([]byte) where Postgres keeps what was answered.
	body  any
	rates rates
}

// bounded is the context of what one step may wait for a store. It has no values of ctx: stores know none.
func (s *Service) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Done() == nil { // a call's, which nobody can cancel
		return s.deadlines.within(s.cfg.Deadline), func() {}
	}
	return context.WithTimeout(ctx, s.cfg.Deadline)
}

// failed makes the problem of a call's error. What is our own trouble is logged.
func (s *Service) failed(err error) *Problem {
	p := storeProblem(err)
	if p.Status >= 500 {
		s.trouble(p.Code, err)
	}
	return p
}

// trouble logs the first of a kind of trouble and then one line every ten seconds.
func (s *Service) trouble(code admit.Code, err error) {
	if s.quiet.Pass(string(code), s.deps.Now()) {
		s.deps.Log.Warn("refusing", obs.ErrID, code, "error", err)
	}
}
