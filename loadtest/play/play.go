// Package play carries out a workload against a running instance.
//
// It owns the order and the concurrency; it owns neither the workload (package workload) nor what comes of it.
//
// Invariants: it returns without an error only when every call has ended as the workload says, whatever died and came
// back meanwhile; every repeat keeps its id.
package play

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weir-project/weir/loadtest/caller"
	"github.com/weir-project/weir/loadtest/rig"
	"github.com/weir-project/weir/loadtest/workload"
)

// Target is what is played against.
type Target struct {
	// Client is the one to use for a tenant's next request.
	Client func(tenant string) *caller.Client
	Send   func(ctx context.Context, messages ...rig.Message) error
	Now    time.Time // of the events
	// Workers is the number of calls at a time.
	Workers int
	// Every is the least time between the starts of two calls; 0 is as fast as it goes.
	Every time.Duration
	// Leave, if not nil, is what each call waits for: one value, or that it is closed, from when on Every does not count either.
	Leave <-chan struct{}
	// Done, if not nil, is raised for every call that has ended.
	Done *atomic.Int64
}

// Leases, in seconds: those of the abandoned run out while the play goes on.
const (
	leaseKept      = 60
	leaseAbandoned = 1
)

// expireWithin bounds the wait until an abandoned hold is seen to have expired.
const expireWithin = 5 * time.Minute

// Play plays w to its end.
func Play(ctx context.Context, w workload.Workload, t Target) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return t.send(ctx, w) })
	calls := make(chan workload.Call)
	group.Go(func() error { return t.feed(ctx, calls, w.Calls) })
	trees := trees{target: t, byRoot: map[string]*caller.Tree{}}
	var lates sync.Map
	for range t.Workers {
		group.Go(func() error {
			for c := range calls {
				if err := t.call(ctx, c, trees.of(c)); err != nil {
					return fmt.Errorf("call %s: %w", c.ID, err)
				}
				if c.Ending == workload.Late {
					lates.Store(c.ID, c)
				}
				if t.Done != nil {
					t.Done.Add(1)
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return t.settleLate(context.WithoutCancel(ctx), &lates)
}

// feed hands out the calls, one at a time, and closes to.
func (t Target) feed(ctx context.Context, to chan<- workload.Call, calls []workload.Call) error {
	defer close(to)
	tick := time.NewTicker(max(t.Every, 1))
	defer tick.Stop()
	every := tick.C
	for _, c := range calls {
		if t.Leave != nil {
			select {
			case _, more := <-t.Leave:
				if !more {
					every = nil
				}
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if every != nil {
			select {
			case <-every:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		select {
		case to <- c:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// trees are the executions by root.
type trees struct {
	target Target
	mu     sync.Mutex
	byRoot map[string]*caller.Tree
}

func (t *trees) of(c workload.Call) *caller.Tree {
	t.mu.Lock()
	defer t.mu.Unlock()
	tree, ok := t.byRoot[c.Root]
	if !ok {
		tree = caller.NewTree(func() *caller.Client { return t.target.Client(c.Tenant) }, caller.Execution{RootExecutionID: c.Root, AgentID: "lead-qualifier", CostCenter: c.CostCenter})
		t.byRoot[c.Root] = tree
	}
	return tree
}

// send sends the events with their copies, and the poison.
func (t Target) send(ctx context.Context, w workload.Workload) error {
	for _, e := range w.Events {
		m := rig.Message{Tenant: e.Tenant, Value: e.Value(t.Now)}
		for range e.Copies {
			if err := t.Send(ctx, m); err != nil {
				return err
			}
		}
	}
	for _, p := range w.Poison {
		if err := t.Send(ctx, rig.Message{Tenant: p.Tenant, Value: p.Value}); err != nil {
			return err
		}
	}
	return nil
}

// call reserves, and ends the reservation as c says. A late one is left open.
func (t Target) call(ctx context.Context, c workload.Call, tree *caller.Tree) error {
	token, err := tree.Token(ctx, c.Agent)
	if err != nil {
		return err
	}
	r := caller.Reservation{
		ID: c.ID, Provider: "openai", Model: c.Model, ExecutionToken: token,
		Estimate: caller.Estimate(c.Input, c.MaxOutput), LeaseSeconds: leaseKept,
	}
	if c.Ending == workload.Abandoned || c.Ending == workload.Late {
		r.LeaseSeconds = leaseAbandoned
	}
	var admission caller.Admission
	err = caller.Insist(ctx, nil, func() (err error) { admission, err = t.Client(c.Tenant).Reserve(ctx, r); return err })
	if err != nil {
		// The answer was lost, and the lease had run out before the repeat: it was admitted, and has expired.
		var refused *caller.Refusal
		if r.LeaseSeconds == leaseAbandoned && errors.As(err, &refused) && refused.Code == "reservation_conflict" {
			return nil
		}
		return fmt.Errorf("reserve: %w", err)
	}
	report := caller.Settlement{Receipt: admission.Receipt}
	switch c.Ending {
	case workload.Abandoned, workload.Late:
		return nil
	case workload.Released:
		return caller.Insist(ctx, nil, func() error { return t.Client(c.Tenant).Release(ctx, c.ID) })
	case workload.Failed:
		report.Status, report.ErrorCode = "FAILED", "overloaded_error"
	case workload.Cut:
		report.Status = "PARTIAL"
	default:
		report = caller.Chat(c.Input, c.Output)
		report.Receipt = admission.Receipt
	}
	return caller.Insist(ctx, nil, func() error { _, err := t.Client(c.Tenant).Settle(ctx, c.ID, report); return err })
}

// settleLate waits for each late call's expiry and then reports what it used.
func (t Target) settleLate(ctx context.Context, lates *sync.Map) error {
	ctx, cancel := context.WithTimeout(ctx, expireWithin)
	defer cancel()
	var errs []error
	lates.Range(func(_, value any) bool {
		c := value.(workload.Call)
		err := rig.Poll(ctx, 50*time.Millisecond, func() (bool, error) {
			state, err := t.Client(c.Tenant).State(ctx, c.ID)
			return err == nil && state == "expired", nil // a service that is away comes back
		})
		if err == nil {
			err = caller.Insist(ctx, nil, func() error {
				_, err := t.Client(c.Tenant).Settle(ctx, c.ID, caller.Chat(c.Input, c.Output))
				return err
			})
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("late settle of %s: %w", c.ID, err))
		}
		return ctx.Err() == nil
	})
	return errors.Join(errs...)
}
