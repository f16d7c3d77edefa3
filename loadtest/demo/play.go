package demo

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weir-project/weir/loadtest/caller"
	"github.com/weir-project/weir/loadtest/trace"
)

// maxOutput is the max_tokens of every call of the trace; its longest answer has 1,899.
const maxOutput = 2048

// player plays the trace. Each tenant has workers of its own, so that one which is told to wait holds nobody up.
type player struct {
	scenario Scenario
	clients  map[string]*caller.Client
	seen     func(tenant string, r *caller.Refusal)
	settled  func(tenant string, a caller.Admission)
	speed    int64
}

// workersOf is more than a tenant's concurrency, so that some calls meet that limit.
const workersOf = 14

// play makes every call and returns when all have settled.
func (p player) play(ctx context.Context, calls []Call) error {
	byTenant := map[string][]Call{}
	for _, c := range calls {
		byTenant[c.Lead.Tenant] = append(byTenant[c.Lead.Tenant], c)
	}
	pace, start := trace.NewPace(calls[0].At, p.speed), time.Now()
	leads := p.leads(calls)
	group, ctx := errgroup.WithContext(ctx)
	for tenant, own := range byTenant {
		due := make(chan Call)
		group.Go(func() error {
			defer close(due)
			return feed(ctx, due, own, func(c Call) time.Duration { return time.Until(start.Add(pace.Offset(c.Call))) })
		})
		for range workersOf {
			group.Go(func() error {
				for c := range due {
					if err := p.call(ctx, tenant, c, leads[c.Lead]); err != nil {
						return fmt.Errorf("%s of %s: %w", c.ID, tenant, err)
					}
				}
				return nil
			})
		}
	}
	return group.Wait()
}

// feed hands out each call when it is due; when the workers are behind, at once.
func feed(ctx context.Context, due chan<- Call, calls []Call, wait func(Call) time.Duration) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for _, c := range calls {
		timer.Reset(max(wait(c), 0))
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		select {
		case due <- c:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// call is one call of an agent: token, reserve, settle. (The provider answers at once.)
func (p player) call(ctx context.Context, tenant string, c Call, lead *running) error {
	client := p.clients[tenant]
	insist := func(do func() error) error {
		return caller.Insist(ctx, func(r *caller.Refusal) { p.seen(tenant, r) }, do)
	}
	token, err := lead.tree.Token(ctx, c.Agent)
	if err != nil {
		return err
	}
	var admission caller.Admission
	err = insist(func() (err error) {
		admission, err = client.Reserve(ctx, caller.Reservation{
			ID: c.ID, Provider: p.scenario.Provider, Model: p.scenario.Model, Estimate: caller.Estimate(c.Input, maxOutput), ExecutionToken: token,
		})
		return err
	})
	if err != nil {
		return err
	}
	report := caller.Chat(c.Input, c.Output)
	report.Receipt = admission.Receipt
	if err := insist(func() error { _, err := client.Settle(ctx, c.ID, report); return err }); err != nil {
		return err
	}
	p.settled(tenant, admission)
	if lead.left.Add(-1) == 0 {
		return insist(func() error { return client.Close(ctx, c.Lead.Root) })
	}
	return nil
}

// running is a lead that is being worked on.
type running struct {
	tree *caller.Tree
	left atomic.Int64
}

func (p player) leads(calls []Call) map[*Lead]*running {
	all := map[*Lead]*running{}
	for _, c := range calls {
		if all[c.Lead] == nil {
			root := caller.Execution{RootExecutionID: c.Lead.Root, AgentID: c.Agent, CostCenter: c.Lead.CostCenter}
			all[c.Lead] = &running{tree: caller.NewTree(func() *caller.Client { return p.clients[c.Lead.Tenant] }, root)}
		}
		all[c.Lead].left.Add(1)
	}
	return all
}
