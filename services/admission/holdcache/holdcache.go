// Package holdcache remembers the open holds that one replica of admission has granted or extended itself. They save a settle
// the question to Redis what it is about (ADR 0014); and when Redis is lost they are shown in the place of an owner who is
// silent, so that nobody is admitted for what such an owner may still settle.
//
// It owns: which holds are remembered and for how long, and to which epoch each was shown. It does not own: whether a
// hold that is remembered does for a call, nor the showing (services/admission). It asks nobody and knows no clock.
//
// Invariants:
//   - What is given out is a copy: nobody shares memory with the cache.
//   - A hold that another replica ended stays until its lease is over for Lasts: that it ended is asked of Postgres when it
//     would be shown, and said by Postgres when it is settled.
//
// Bounds: the number that New is given, at about 400 B a hold with its call; at the bound the one that was granted first is
// forgotten, and counted.
package holdcache

import (
	"hash/maphash"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/weir-project/weir/pkg/domain/admit"
)

const (
	// shardCount keeps calls from waiting for each other: the lock of one is held for a few hundred nanoseconds.
	shardCount = 64
	// Lasts is how long after its lease a hold is remembered. By then a reaper has ended it, as long as there is one
	// that can.
	Lasts = time.Minute
	// sweepEvery is how often holds that are over are looked for.
	sweepEvery = 10 * time.Second
)

// Hold is one of them: what its receipt carries, and how it stands.
type Hold struct {
	Tenant, ID  string
	Call        []byte // as the hold keeps it
	Epoch       int64
	ReservedAt  time.Time // in µs, as the store has it
	Ends        time.Time // of the lease, by Redis' clock, in µs
	Day, Month  int32
	Held        admit.Estimate
	Fingerprint admit.Fingerprint
}

// Cache is safe for concurrent use.
type Cache struct {
	most      int // in one shard
	seed      maphash.Seed
	forgotten func()
	shards    [shardCount]shard
	swept     atomic.Int64 // Unix ns
}

// New remembers at most so many holds; forgotten is told of each that goes because of that.
func New(most int, forgotten func()) *Cache {
	c := &Cache{most: (most + shardCount - 1) / shardCount, seed: maphash.MakeSeed(), forgotten: forgotten}
	for i := range c.shards {
		c.shards[i].init(c.most)
	}
	return c
}

func (c *Cache) find(tenant, id string) (s *shard, name uint64) {
	name = maphash.String(c.seed, id) ^ bits.RotateLeft64(maphash.String(c.seed, tenant), 32)
	return &c.shards[name%shardCount], name
}

// Put remembers a hold; nothing of h is kept but copies. A repeat, or an extension, only lengthens its lease and adds
// to what it holds.
func (c *Cache) Put(h Hold) {
	if c.most == 0 {
		return
	}
	s, name := c.find(h.Tenant, h.ID)
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := s.at(name); at != nowhere {
		if old := &s.slots[at]; old.is(h.Tenant, h.ID, h.ReservedAt) {
			old.grow(h.Held, h.Ends)
			return
		}
		s.remove(at) // of two that share a name, the later stays
	}
	if s.count >= c.most {
		s.remove(s.first)
		c.forgotten()
	}
	s.add(name, h)
}

// Get is a copy of a hold, false where none of that name is remembered.
func (c *Cache) Get(tenant, id string) (Hold, bool) {
	s, name := c.find(tenant, id)
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.at(name)
	if at == nowhere || !s.slots[at].named(tenant, id) {
		return Hold{}, false
	}
	return s.slots[at].copied(tenant, id), true
}

// Delete forgets a hold that has a row in Postgres. The text is not compared, which would be one more place in memory to visit:
// to forget another one of the same name and instant, once in 2^64 times, would cost no more than at the bound.
func (c *Cache) Delete(tenant, id string, reservedAt time.Time) {
	s, name := c.find(tenant, id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := s.at(name); at != nowhere && s.slots[at].reservedAt == reservedAt.UnixMicro() {
		s.remove(at)
	}
}

// Unshown are copies of those that were not shown to an epoch yet, which is a later one than theirs.
func (c *Cache) Unshown(epoch int64) []Hold {
	var out []Hold
	for i := range c.shards {
		c.shards[i].each(func(_ int32, h *slot) {
			if h.shown < epoch && h.epoch < epoch {
				out = append(out, h.copied(h.whose()))
			}
		})
	}
	return out
}

// MarkShown notes that a hold needs not be shown to that epoch again.
func (c *Cache) MarkShown(h Hold, epoch int64) {
	s, name := c.find(h.Tenant, h.ID)
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := s.at(name); at != nowhere && s.slots[at].is(h.Tenant, h.ID, h.ReservedAt) {
		s.slots[at].shown = epoch
	}
}

// Sweep forgets, now and then, what is over. The caller serves for Lasts already, so that a reaper had its turn.
func (c *Cache) Sweep(now time.Time) {
	if last := c.swept.Load(); now.UnixNano()-last < int64(sweepEvery) || !c.swept.CompareAndSwap(last, now.UnixNano()) {
		return
	}
	over := now.Add(-Lasts).UnixMicro()
	for i := range c.shards {
		s := &c.shards[i]
		s.each(func(at int32, h *slot) {
			if h.ends < over {
				s.remove(at)
			}
		})
	}
}

// Len is how many are remembered.
func (c *Cache) Len() (n int) {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		n += s.count
		s.mu.Unlock()
	}
	return n
}
