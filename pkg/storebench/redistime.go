package storebench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-project/weir/pkg/budgetstore"
)

const (
	// batch is how many calls of one program share a round trip.
	batch  = 50
	rounds = 120
)

// errNotAdmitted: a call was refused, so the round measured something else.
var errNotAdmitted = errors.New("storebench: a call was not admitted")

// program is one thing that is measured in turn with others.
type program struct {
	bench  *bench
	tenant budgetstore.Tenant
	gap    time.Duration // between two calls, on a logical clock
	settle bool          // settles are measured, not reservations
	joint  bool          // those of a batch share a script call, as concurrent ones do
	hash   string        // of another script with the same keys and arguments; "" is ours
	us     []float64     // Redis' own time for one call, of each round
}

// redisTimes are the figures of Redis' own time: by its real clock with a full
// window, for a reservation alone and for one of those that share a script call,
// and by a logical one with 10 and with 50,000 calls in the window; and of that
// for a settle.
func redisTimes(ctx context.Context, live, logical *bench) ([]Figure, error) {
	busy, err := live.tenant(ctx, "busy", full, 0)
	if err != nil {
		return nil, err
	}
	fewGap, manyGap := time.Minute/10, time.Minute/full
	few, err := logical.tenant(ctx, "few", 10, fewGap)
	if err != nil {
		return nil, err
	}
	many, err := logical.tenant(ctx, "many", full, manyGap)
	if err != nil {
		return nil, err
	}
	hash, err := live.client.ScriptLoad(ctx, trivialSource).Result()
	if err != nil {
		return nil, fmt.Errorf("load script: %w", err)
	}
	programs := [...]*program{{bench: live, tenant: busy}, {bench: live, tenant: busy, hash: hash},
		{bench: logical, tenant: few, gap: fewGap}, {bench: logical, tenant: many, gap: manyGap},
		{bench: live, tenant: busy, settle: true}, {bench: live, tenant: busy, settle: true, hash: hash},
		{bench: live, tenant: busy, joint: true}}
	for range rounds {
		for _, p := range programs {
			us, err := p.round(ctx)
			if err != nil {
				return nil, err
			}
			p.us = append(p.us, us)
		}
	}
	return []Figure{
		figure("redis_time_us", fastest(programs[0].us), fastest(programs[1].us), 10),
		figure("redis_time_together_us", fastest(programs[6].us), fastest(programs[0].us), 10),
		figure("flat_10_to_50000", fastest(programs[3].us), fastest(programs[2].us), 1.2),
		figure("settle_time_us", fastest(programs[4].us), fastest(programs[5].us), 15),
	}, nil
}

// fastest is the mean of the fastest quarter of the rounds. Redis' own time is
// taken by the clock on the wall, so whatever else runs on the machine, or
// slows it down, adds to it in some rounds, to whichever program was on. What
// a call costs is what it costs when nothing is in its way, which is the same
// measure for each program; a median would mostly report the neighbours.
func fastest(us []float64) float64 {
	us = slices.Sorted(slices.Values(us))
	us = us[:max(1, len(us)/4)]
	sum := 0.0
	for _, x := range us {
		sum += x
	}
	return sum / float64(len(us))
}

// round sends one batch, drops the holds it made, as if they had been settled,
// and returns Redis' own time for one call in µs.
func (p *program) round(ctx context.Context) (float64, error) {
	client := p.bench.client
	pipe := client.Pipeline()
	cmds := make([]*redis.Cmd, 0, batch)
	calls, err := p.calls(ctx)
	if err != nil {
		return 0, err
	}
	var holds []string
	for _, call := range calls {
		cmds = append(cmds, pipe.EvalSha(ctx, cmp.Or(p.hash, call.Hash), call.Keys, call.Args...))
		holds = append(holds, call.Holds...)
	}
	before, err := evalTime(ctx, client)
	if err != nil {
		return 0, err
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return 0, fmt.Errorf("storebench: %w", err)
	}
	after, err := evalTime(ctx, client)
	if err != nil {
		return 0, err
	}
	us := (after - before) / batch
	for i, c := range cmds {
		if p.hash == "" && !calls[i].Done(c.Val()) {
			return 0, fmt.Errorf("%w: %q", errNotAdmitted, c.Val())
		}
	}
	return us, client.HDel(ctx, calls[0].Keys[0], holds...).Err()
}

// calls are those of one batch. For settles the reservations are made here, which is not measured.
func (p *program) calls(ctx context.Context) ([]budgetstore.Call, error) {
	requests, calls := make([]budgetstore.Request, batch), make([]budgetstore.Call, batch)
	for i := range requests {
		requests[i] = p.bench.request(p.tenant, p.gap)
		calls[i] = p.bench.store.ReserveCall(requests[i]) // at the clock of its request
	}
	if p.joint {
		return []budgetstore.Call{p.bench.store.ReserveTogetherCall(requests)}, nil
	}
	if !p.settle {
		return calls, nil
	}
	for i, result := range p.bench.store.ReserveBatch(ctx, requests) {
		if result.Err != nil {
			return nil, result.Err
		}
		if result.Reply.Verdict != budgetstore.Admitted {
			return nil, fmt.Errorf("%w: verdict %d", errNotAdmitted, result.Reply.Verdict)
		}
		r := requests[i]
		ref := budgetstore.Ref{Tenant: r.Tenant, ID: r.ID, ReservedAt: result.Reply.Answer.ReservedAt, Root: r.Execution.Root}
		calls[i] = p.bench.store.SettleCall(ref, r.Estimate)
	}
	return calls, nil
}

// evalTime is Redis' time for all EVALSHA so far, in µs. The statistics are not reset between rounds: each command that a
// script calls would then make its histogram of latencies anew, tens of kilobytes, within the time of the script.
func evalTime(ctx context.Context, client *redis.Client) (float64, error) {
	info, err := client.Info(ctx, "commandstats").Result()
	if err != nil {
		return 0, fmt.Errorf("read statistics: %w", err)
	}
	_, rest, known := strings.Cut(info, "cmdstat_evalsha:")
	if !known { // none yet
		return 0, nil
	}
	_, rest, _ = strings.Cut(rest, ",usec=")
	text, _, _ := strings.Cut(rest, ",")
	us, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, fmt.Errorf("read statistics: %w", err)
	}
	return us, nil
}
