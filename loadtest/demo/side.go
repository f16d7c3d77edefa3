package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/weir-project/weir/loadtest/caller"
	"github.com/weir-project/weir/loadtest/rig"
	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/gen/weirv1"
	"github.com/weir-project/weir/pkg/usageevent"
)

// playTrial makes equal calls, one at a time, until the month refuses one. made is told of each.
func playTrial(ctx context.Context, s Scenario, client *caller.Client, made func(int, *caller.Refusal)) error {
	tick := time.NewTicker(400 * time.Millisecond)
	defer tick.Stop()
	for n := 1; ; n++ {
		id := fmt.Sprintf("trial-%04d", n)
		err := caller.Insist(ctx, nil, func() error {
			_, err := client.Reserve(ctx, caller.Reservation{
				ID: id, Provider: s.Provider, Model: s.Model, AgentID: s.Trial.Agent, CostCenter: s.Trial.CostCenter,
				Estimate: caller.Estimate(s.Trial.Input, s.Trial.Output),
			})
			return err
		})
		var r *caller.Refusal
		if errors.As(err, &r) && r.Code == "tenant_quota_exceeded" {
			made(n-1, r)
			return nil
		}
		if err == nil {
			err = caller.Insist(ctx, nil, func() error { _, err := client.Settle(ctx, id, caller.Chat(s.Trial.Input, s.Trial.Output)); return err })
		}
		if err != nil {
			return fmt.Errorf("trial: %w", err)
		}
		made(n, nil)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// directEvent is the i-th event of d. With a token, tenant and lineage are the token's.
func directEvent(s Scenario, d Direct, name string, i int, token string, now time.Time) usageevent.Event {
	usage, _ := json.Marshal(map[string]int64{"prompt_tokens": d.Input, "completion_tokens": d.Output}) // integers always encode
	return usageevent.Event{
		ID: fmt.Sprintf("%s-%05d", name, i), Source: "demo/" + name, Type: usageevent.TypeUsage, Subject: d.Tenant, Time: now.UTC(),
		Data: usageevent.Data{
			Provider: s.Provider, Model: s.Model, API: "chat.completions", Usage: usage, AgentID: d.Agent, CostCenter: d.CostCenter, ExecutionToken: token,
		},
	}
}

// playDirect sends usage that never asked, some of it twice, and two records that nobody can bill.
func playDirect(ctx context.Context, s Scenario, sender *rig.Sender, sent func(int)) error {
	d := s.Direct
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	poison := []rig.Message{{Tenant: d.Tenant, Value: `{"specversion":"1.0","id":"cut of`}, {Tenant: d.Tenant, Value: `not JSON at all`}}
	if err := sender.Send(ctx, poison...); err != nil {
		return err
	}
	var again []rig.Message
	for i := range d.Events {
		m := rig.Message{Tenant: d.Tenant, Value: string(usageevent.Encode(directEvent(s, d, "import", i, "", time.Now())))}
		if i < d.SentTwice {
			again = append(again, m)
		}
		if err := sender.Send(ctx, m); err != nil {
			return err
		}
		sent(i + 1)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return sender.Send(ctx, again...)
}

// runaway is how far the loop has come.
type runaway struct {
	Events  int
	Tripped bool          // the breaker has published the revocation
	After   time.Duration // from the first event to the revocation
	Refused *caller.Refusal
}

// tripWithin bounds the wait for the breaker, and for admission to obey it.
const tripWithin = 5 * time.Minute

// playRunaway lets an agent loop without asking: its events are billed, the breaker ends its execution, and its next
// reservation is refused.
func playRunaway(ctx context.Context, s Scenario, r *rig.Rig, client *caller.Client, sender *rig.Sender, told func(runaway)) error {
	var state runaway
	d := s.Runaway
	var started caller.Started
	err := caller.Insist(ctx, nil, func() (err error) {
		started, err = client.Start(ctx, caller.Execution{RootExecutionID: "runaway-loop", AgentID: d.Agent, CostCenter: d.CostCenter})
		return err
	})
	if err != nil {
		return fmt.Errorf("runaway: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, tripWithin, errors.New("runaway: the breaker did not end the execution in time"))
	defer cancel()
	tripped, err := revocation(ctx, r, d.Tenant, started.RootExecutionID)
	if err != nil {
		return err
	}
	begin := time.Now()
	for i := range d.Events {
		ev := directEvent(s, d, "loop", i, started.Token, time.Now())
		if err := sender.Send(ctx, rig.Message{Tenant: d.Tenant, Value: string(usageevent.Encode(ev))}); err != nil {
			return err
		}
		state.Events = i + 1
		told(state)
	}
	select {
	case <-tripped:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	state.Tripped, state.After = true, time.Since(begin)
	told(state)
	if state.Refused, err = refusedRevoked(ctx, s, client, started.Token); err != nil {
		return err
	}
	told(state)
	return nil
}

// revocation is closed when the breaker has published that the root is revoked.
func revocation(ctx context.Context, r *rig.Rig, tenant, root string) (<-chan struct{}, error) {
	conn, err := r.Kafka()
	if err != nil {
		return nil, err
	}
	seen, done := false, make(chan struct{})
	follower := conn.Follow(topics.ExecutionsRevoked, func(rec bus.Record) error {
		var m weirv1.Revocation
		if err := proto.Unmarshal(rec.Value, &m); err != nil {
			return fmt.Errorf("revocation: %w", err)
		}
		if m.GetTenantId() == tenant && m.GetRootExecutionId() == root && !seen {
			seen = true
			close(done)
		}
		return nil
	})
	go func() { _ = follower.Run(ctx) }() // ends with ctx, without an error
	return done, follower.WaitReady(ctx)
}

// refusedRevoked asks under the revoked token until admission refuses it as revoked; what it admitted before it knew is
// given back.
func refusedRevoked(ctx context.Context, s Scenario, client *caller.Client, token string) (*caller.Refusal, error) {
	var refused *caller.Refusal
	n := 0
	err := rig.Poll(ctx, 20*time.Millisecond, func() (bool, error) {
		n++
		id := fmt.Sprintf("loop-next-%d", n)
		err := caller.Insist(ctx, nil, func() error {
			_, err := client.Reserve(ctx, caller.Reservation{
				ID: id, Provider: s.Provider, Model: s.Model, Estimate: caller.Estimate(s.Runaway.Input, s.Runaway.Output), ExecutionToken: token,
			})
			return err
		})
		switch {
		case err == nil:
			return false, caller.Insist(ctx, nil, func() error { return client.Release(ctx, id) })
		case errors.As(err, &refused):
			return refused.Code == "execution_revoked", nil
		}
		return false, err
	})
	if err != nil {
		return nil, fmt.Errorf("runaway: last refusal %v: %w", refused, err)
	}
	return refused, nil
}
