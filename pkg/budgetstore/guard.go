package budgetstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// ErrReplaced: a new connection met a Redis that the epoch does not know: restarted, failed over or restored, so it may
// have lost writes. Nothing was sent to it. Admission answers budget_store_recovering.
var ErrReplaced = errors.New("redis was restarted, failed over or restored: its replication id is another one")

// guard lets connections through to known masters only. Redis draws a new master_replid whenever it starts and whenever
// a replica is promoted, which are the moments at which writes can be lost without a trace (ADR 0009).
type guard struct {
	allowed  atomic.Pointer[[]string] // nil: any
	replaced chan struct{}
}

func newGuard() *guard { return &guard{replaced: make(chan struct{}, 1)} }

// check is go-redis' OnConnect. Of its error the client returns what it unwraps to, so that is the sentinel.
func (g *guard) check(ctx context.Context, cn *redis.Conn) error {
	allowed := g.allowed.Load()
	if allowed == nil {
		return nil
	}
	info, err := cn.Info(ctx, "replication").Result()
	if err != nil {
		return fmt.Errorf("%w: info replication: %w", ErrUnavailable, err)
	}
	if infoField(info, "master_replid") == "" && isSentinel(ctx, cn) {
		return nil
	}
	if err := compare(info, *allowed); err != nil {
		select {
		case g.replaced <- struct{}{}:
		default: // somebody is told already
		}
		return fmt.Errorf("%w", err)
	}
	return nil
}

// compare judges what Redis says of its replication.
func compare(info string, allowed []string) error {
	switch {
	case infoField(info, "role") == "slave": // until it has all of its new master's data, its id is still the old one
		return ErrReplica
	case !slices.Contains(allowed, infoField(info, "master_replid")):
		return ErrReplaced
	default:
		return nil
	}
}

// Compare compares the masters as a new connection would: ErrReplaced, ErrReplica; ErrUnavailable where one does not answer.
func (s *Store) Compare(ctx context.Context) error {
	allowed := s.guard.allowed.Load()
	if allowed == nil {
		return nil
	}
	masters, err := s.masters(ctx)
	for _, c := range masters {
		info, asked := c.Info(ctx, "replication").Result()
		if asked != nil {
			return fmt.Errorf("%w: info replication: %w", ErrUnavailable, asked)
		}
		if err := compare(info, *allowed); err != nil {
			return err
		}
	}
	return err
}

// isSentinel: the client asks a Sentinel where the master is, by the same hook. It holds nothing of ours.
func isSentinel(ctx context.Context, cn *redis.Conn) bool {
	info, err := cn.Info(ctx, "server").Result()
	return err == nil && infoField(info, "redis_mode") == "sentinel"
}

// Allow names the replication ids that new connections may meet; none means any. Connections that are open stay: scripts
// compare the epoch.
func (s *Store) Allow(ids []string) {
	if len(ids) == 0 {
		s.guard.allowed.Store(nil)
		return
	}
	ids = slices.Clone(ids)
	s.guard.allowed.Store(&ids)
}

// AllowNone lets no new connection through, until Allow: what a lost epoch left behind must answer nobody.
func (s *Store) AllowNone() { s.guard.allowed.Store(&[]string{}) }

// Replaced receives when a connection was refused because of ErrReplaced or ErrReplica.
func (s *Store) Replaced() <-chan struct{} { return s.guard.replaced }

// Standing is what Redis says of itself.
type Standing struct {
	// Epoch is 0 where none is stored.
	Epoch int64
	// ReplicationIDs are the master_replid of all its masters, sorted.
	ReplicationIDs []string
	// Seal is the token of a planned restart; "" = none.
	Seal string
	// Runs are the run ids of the masters, sorted: each process has its own.
	Runs []string
	// Formerly are the master_replid of those whose replica a master was lately; empty: none was one.
	Formerly []string
	// Clocks are what the masters' clocks said while they were asked; of one that does not say it there is none.
	Clocks []time.Time
	// Refuses is why a master lets no script write, a Refusal; nil: all of them do.
	Refuses error
}

// Unbroken reports whether s is of the same processes as an earlier standing, none of which was a replica in between. For
// standings that are seconds apart: Redis forgets after an hour without replicas that it was one.
func (s Standing) Unbroken(earlier Standing) bool {
	return len(s.Formerly) == 0 && len(s.Runs) > 0 && slices.Equal(s.Runs, earlier.Runs)
}

const sealKey = "w:seal"

// Inspect asks Redis what it is, whatever Allow says. ErrUnavailable where it does not answer, ErrReplica where it is one.
func (s *Store) Inspect(ctx context.Context) (Standing, error) {
	masters, err := s.masters(ctx)
	if err != nil {
		return Standing{}, err
	}
	var out Standing
	for _, c := range masters {
		if err := out.ask(ctx, c); err != nil {
			return Standing{}, err
		}
	}
	if s.opts.ScriptClock != nil { // scripts go by that
		out.Clocks = []time.Time{s.opts.ScriptClock()}
	}
	slices.Sort(out.ReplicationIDs)
	slices.Sort(out.Runs)
	out.ReplicationIDs = slices.Compact(out.ReplicationIDs)
	// One after the other, not as a pair: the two keys are in different slots of a Cluster.
	if out.Epoch, err = s.probe.Get(ctx, epochKey).Int64(); err != nil && !errors.Is(err, redis.Nil) {
		return Standing{}, fmt.Errorf("%w: inspect: %w", ErrUnavailable, err)
	}
	if out.Seal, err = s.probe.Get(ctx, sealKey).Result(); err != nil && !errors.Is(err, redis.Nil) {
		return Standing{}, fmt.Errorf("%w: inspect: %w", ErrUnavailable, err)
	}
	return out, nil
}

// masters are the nodes that hold keys: the only one, or those of a Cluster.
func (s *Store) masters(ctx context.Context) ([]redis.Cmdable, error) {
	cluster, ok := s.probe.(*redis.ClusterClient)
	if !ok {
		return []redis.Cmdable{s.probe}, nil
	}
	var mu sync.Mutex // the client calls back for all of them at once
	var nodes []redis.Cmdable
	err := cluster.ForEachMaster(ctx, func(_ context.Context, c *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		nodes = append(nodes, c)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%w: masters: %w", ErrUnavailable, err)
	}
	return nodes, nil
}

// ask adds what a master says of itself.
func (s *Standing) ask(ctx context.Context, c redis.Cmdable) error {
	// Both by one connection, so that they are of one process: its run id beside the replication id of another that has taken its
	// place would be a Redis that is unbroken.
	both := c.Pipeline()
	asked, replied := both.Info(ctx, "server"), both.Info(ctx, "replication")
	if _, err := both.Exec(ctx); err != nil {
		return fmt.Errorf("%w: info server, replication: %w", ErrUnavailable, err)
	}
	server, info := asked.Val(), replied.Val()
	id, role := infoField(info, "master_replid"), infoField(info, "role")
	switch {
	case role == "slave":
		return fmt.Errorf("inspect: %w", ErrReplica)
	case role != "master", id == "":
		return fmt.Errorf("%w: its role is %q, its replication id %q", ErrUnavailable, role, id)
	}
	s.ReplicationIDs, s.Runs = append(s.ReplicationIDs, id), append(s.Runs, infoField(server, "run_id"))
	if former := infoField(info, "master_replid2"); strings.Trim(former, "0") != "" {
		s.Formerly = append(s.Formerly, former)
	}
	if us, err := strconv.ParseInt(infoField(server, "server_time_usec"), 10, 64); err == nil {
		s.Clocks = append(s.Clocks, time.UnixMicro(us))
	}
	s.Refuses = cmp.Or(s.Refuses, refuses(ctx, c))
	return nil
}

// infoField is one line of INFO; "" if it is not there.
func infoField(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+":"); ok {
			return value
		}
	}
	return ""
}

// SetEpoch makes this the Redis of an epoch, which its tenants' counters are made for afterwards.
func (s *Store) SetEpoch(ctx context.Context, epoch int64) error {
	if err := s.probe.Set(ctx, epochKey, epoch, 0).Err(); err != nil {
		return fmt.Errorf("%w: set epoch: %w", ErrUnavailable, err)
	}
	return nil
}

// ErrCluster: a Cluster cannot be sealed, because one key is in one of its shards.
var ErrCluster = errors.New("a Redis Cluster cannot be sealed")

// Seal leaves a token behind everything that was written, once nobody writes any more: the Redis that comes back with it
// has all of it, because what Redis keeps is always the beginning of what was written.
func (s *Store) Seal(ctx context.Context, token string) error {
	if _, cluster := s.probe.(*redis.ClusterClient); cluster {
		return ErrCluster
	}
	if err := s.probe.Set(ctx, sealKey, token, 0).Err(); err != nil {
		return fmt.Errorf("%w: seal: %w", ErrUnavailable, err)
	}
	return nil
}
