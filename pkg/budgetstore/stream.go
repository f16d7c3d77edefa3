package budgetstore

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"runtime"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Bounds of a stream: how many calls ride in one round trip, and how many may wait or be under way. One more fails at
// once, as ErrUnavailable.
const (
	maxShared = 256
	maxQueued = 1 << 16
)

// clusterStreams: on a cluster a node that does not answer holds up the calls that share a stream with its own.
const clusterStreams = 8

var (
	errStreamFull   = errors.New("too many calls wait for redis")
	errStreamClosed = errors.New("the store is closed")
)

// sharedCall is one call on a stream: of a script, or any command.
type sharedCall struct {
	script *redis.Script
	keys   []string
	args   []any
	cmd    redis.Cmder // nil of a script, whose command is made when it is sent: most are part of another one
	done   chan struct{}
	// What the script replied, and what went wrong: from done on.
	reply any
	err   error
	// Of a call that may be made together with others of its kind and tenant: the key of the tenant's state, the script that
	// takes several, and what that takes of this one.
	key   string
	joint *redis.Script
	parts []any
}

// result is what done tells of.
func (c *sharedCall) result() (any, error) { return c.reply, c.err }

// stream lets concurrent calls share round trips: what arrives while one is under way goes out together as the next one,
// so a lone call waits for nobody. Reservations of one tenant that ride together are one call of batch.lua, ends of its holds
// one of finish.lua: each is decided as it would be alone, those of a kind in the order of arrival. Safe for concurrent use.
type stream struct {
	client redis.UniversalClient
	clock  func() string // the scripts' test clock, "" in production
	wake   chan struct{} // at most one: something is queued
	ended  chan struct{}

	mu     sync.Mutex
	queue  []*sharedCall
	open   int // queued or under way
	closed bool
}

func newStream(client redis.UniversalClient, clock func() string) *stream {
	s := &stream{client: client, clock: clock, wake: make(chan struct{}, 1), ended: make(chan struct{})}
	go s.run()
	return s
}

// do sends a call and waits for its answer, which the call or its command then has, or for the context's end: Redis may run
// the call all the same then, and neither must be looked at.
func (s *stream) do(ctx context.Context, c *sharedCall) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.done = make(chan struct{})
	if err := s.add(c); err != nil {
		return err
	}
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *stream) add(c *sharedCall) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errStreamClosed
	}
	if s.open == maxQueued {
		return errStreamFull
	}
	s.open++
	s.queue = append(s.queue, c)
	select {
	case s.wake <- struct{}{}:
	default: // it will look at the queue anyway
	}
	return nil
}

// close answers what was accepted, then ends.
func (s *stream) close() {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	s.mu.Unlock()
	if first {
		close(s.wake)
	}
	<-s.ended
}

func (s *stream) run() {
	defer close(s.ended)
	for range s.wake {
		for {
			runtime.Gosched() // whoever is about to call comes along
			calls := s.take()
			if len(calls) == 0 {
				break
			}
			s.send(calls)
		}
	}
}

func (s *stream) take() []*sharedCall {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := s.queue
	if len(calls) <= maxShared {
		s.queue = nil
		return calls
	}
	s.queue = calls[maxShared:]
	return calls[:maxShared:maxShared]
}

// send is one round trip. Each call has its own error.
func (s *stream) send(calls []*sharedCall) {
	ctx := context.Background() // of many callers; the connection's time-outs bound it
	pipe := s.client.Pipeline()
	groups := grouped(calls)
	scripts := make([]*redis.Cmd, len(groups))
	for i, group := range groups {
		switch first := group[0]; {
		case len(group) > 1:
			scripts[i] = evalSha(ctx, first.joint.Hash(), []string{first.key}, s.together(group))
		case first.cmd == nil:
			scripts[i] = evalSha(ctx, first.script.Hash(), first.keys, first.args)
		default:
			_ = pipe.Process(ctx, first.cmd) // queues it
			continue
		}
		_ = pipe.Process(ctx, scripts[i])
	}
	_, _ = pipe.Exec(ctx)
	for i, group := range groups {
		switch first := group[0]; {
		case len(group) > 1:
			s.share(ctx, scripts[i], group)
		case first.cmd == nil:
			first.reply, first.err = scripts[i].Result()
		default:
			first.err = first.cmd.Err()
		}
	}
	s.mu.Lock()
	s.open -= len(calls)
	s.mu.Unlock()
	for _, c := range calls {
		close(c.done)
	}
}

// grouped puts calls of one tenant and kind together, up to maxGroup; every other call is alone.
func grouped(calls []*sharedCall) [][]*sharedCall {
	type kind struct {
		key   string
		joint *redis.Script
	}
	groups := make([][]*sharedCall, 0, len(calls))
	latest := map[kind]int{} // its last group
	for i, c := range calls {
		if c.key == "" {
			groups = append(groups, calls[i:i+1:i+1])
			continue
		}
		of := kind{c.key, c.joint}
		if g, ok := latest[of]; ok && len(groups[g]) < maxGroup {
			groups[g] = append(groups[g], c)
			continue
		}
		latest[of] = len(groups)
		groups = append(groups, calls[i:i+1:i+1])
	}
	return groups
}

// together are the arguments of a joint call: those of each, and the test clock if there is one.
func (s *stream) together(group []*sharedCall) []any {
	args := make([]any, 0, 1+len(group)*len(group[0].parts))
	for _, c := range group {
		args = append(args, c.parts...)
	}
	return withClock(args, s.clock())
}

// withClock appends a test clock; in production there is none.
func withClock(args []any, clock string) []any {
	if clock == "" {
		return args
	}
	return append(args, clock)
}

// share gives each call its reply of a joint one. Where Redis has forgotten the script, it is loaded for the next; each
// caller has its own second try.
func (s *stream) share(ctx context.Context, cmd *redis.Cmd, group []*sharedCall) {
	replies, err := cmd.Slice()
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		_ = group[0].joint.Load(ctx, s.client).Err()
	}
	if err == nil && len(replies) != len(group) {
		err = fmt.Errorf("%d replies to %d calls", len(replies), len(group))
	}
	for i, c := range group {
		if c.err = err; err == nil {
			c.reply = replies[i]
		}
	}
}

// streams are where a store's calls share round trips: one stream, or several on a cluster.
type streams struct {
	list []*stream
	seed maphash.Seed
}

func newStreams(client redis.UniversalClient, clock func() string) *streams {
	n := 1
	if _, ok := client.(*redis.ClusterClient); ok {
		n = clusterStreams
	}
	s := &streams{seed: maphash.MakeSeed()}
	for range n {
		s.list = append(s.list, newStream(client, clock))
	}
	return s
}

// do sends a call on the stream of its first key.
func (s *streams) do(ctx context.Context, key string, c *sharedCall) error {
	at := uint64(0)
	if len(s.list) > 1 {
		at = maphash.String(s.seed, key) % uint64(len(s.list))
	}
	return s.list[at].do(ctx, c)
}

func (s *streams) close() {
	for _, one := range s.list {
		one.close()
	}
}
