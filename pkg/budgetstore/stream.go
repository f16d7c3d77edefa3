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

// sharedCall is one command on a stream.
type sharedCall struct {
	cmd  redis.Cmder
	own  *redis.Cmd // cmd, if it calls a script
	done chan struct{}
	// Of a reservation: the key of the tenant's state, and what batch.lua takes in the place of cmd.
	key   string
	parts []any
}

// reservation is a call that may become one of a batch.
func reservation(ctx context.Context, script *redis.Script, keys []string, args []any, r Request) *sharedCall {
	cmd := evalSha(ctx, script.Hash(), keys, args)
	return &sharedCall{cmd: cmd, own: cmd, key: keys[0], parts: r.parts(args)}
}

// stream lets concurrent calls share round trips: what arrives while one is under way goes out together as the next one,
// so a lone call waits for nobody. Reservations of one tenant that ride together are one call of batch.lua: each is decided
// as it would be alone, in the order of arrival, in three quarters of Redis' time. Safe for concurrent use.
type stream struct {
	client redis.UniversalClient
	batch  *redis.Script
	clock  func() string // batch.lua's test clock
	wake   chan struct{} // at most one: something is queued
	ended  chan struct{}

	mu     sync.Mutex
	queue  []*sharedCall
	open   int // queued or under way
	closed bool
}

func newStream(client redis.UniversalClient, batch *redis.Script, clock func() string) *stream {
	s := &stream{client: client, batch: batch, clock: clock, wake: make(chan struct{}, 1), ended: make(chan struct{})}
	go s.run()
	return s
}

// do sends a call and waits for its answer, which the command then has, or for the context's end: Redis may run the call
// all the same then, and the command must not be looked at.
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
		return c.cmd.Err()
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

// send is one round trip. Each command has its own error.
func (s *stream) send(calls []*sharedCall) {
	ctx := context.Background() // of many callers; the connection's time-outs bound it
	pipe := s.client.Pipeline()
	groups := grouped(calls)
	batches := make([]*redis.Cmd, len(groups))
	for i, group := range groups {
		cmd := group[0].cmd
		if len(group) > 1 {
			batches[i] = evalSha(ctx, s.batch.Hash(), []string{group[0].key}, s.together(group))
			cmd = batches[i]
		}
		_ = pipe.Process(ctx, cmd) // queues it
	}
	_, _ = pipe.Exec(ctx)
	for i, cmd := range batches {
		if cmd != nil {
			s.share(ctx, cmd, groups[i])
		}
	}
	s.mu.Lock()
	s.open -= len(calls)
	s.mu.Unlock()
	for _, c := range calls {
		close(c.done)
	}
}

// grouped puts reservations of one tenant together, up to maxGroup; every other call is alone.
func grouped(calls []*sharedCall) [][]*sharedCall {
	groups := make([][]*sharedCall, 0, len(calls))
	latest := map[string]int{} // the last group of a tenant
	for i, c := range calls {
		if c.key == "" {
			groups = append(groups, calls[i:i+1:i+1])
			continue
		}
		if g, ok := latest[c.key]; ok && len(groups[g]) < maxGroup {
			groups[g] = append(groups[g], c)
			continue
		}
		latest[c.key] = len(groups)
		groups = append(groups, calls[i:i+1:i+1])
	}
	return groups
}

// together are what batch.lua's header lists.
func (s *stream) together(group []*sharedCall) []any {
	args := make([]any, 1, 1+len(group)*len(group[0].parts))
	args[0] = s.clock()
	for _, c := range group {
		args = append(args, c.parts...)
	}
	return args
}

// share gives each reservation its reply of a batch. Where Redis has forgotten the script, it is loaded for the next
// batch; each caller has its own second try.
func (s *stream) share(ctx context.Context, cmd *redis.Cmd, group []*sharedCall) {
	replies, err := cmd.Slice()
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		_ = s.batch.Load(ctx, s.client).Err()
	}
	if err == nil && len(replies) != len(group) {
		err = fmt.Errorf("batch: %d replies to %d calls", len(replies), len(group))
	}
	for i, c := range group {
		if err != nil {
			c.own.SetErr(err)
		} else {
			c.own.SetVal(replies[i])
		}
	}
}

// streams are where a store's calls share round trips: one stream, or several on a cluster.
type streams struct {
	list []*stream
	seed maphash.Seed
}

func newStreams(client redis.UniversalClient, batch *redis.Script, clock func() string) *streams {
	n := 1
	if _, ok := client.(*redis.ClusterClient); ok {
		n = clusterStreams
	}
	s := &streams{seed: maphash.MakeSeed()}
	for range n {
		s.list = append(s.list, newStream(client, batch, clock))
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
