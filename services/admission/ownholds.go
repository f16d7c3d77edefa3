package admission

import (
	"hash/maphash"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/weir-project/weir/pkg/domain/admit"
)

// Open holds that this replica has granted or extended itself. They save a settle the question to Redis what it is about
// (find.go, ADR 0014); and when Redis is lost they are shown in the place of an owner who is silent (recovery_show.go), so
// that nobody is admitted for what such an owner may still settle.
//
// Memory: about 400 B a hold with its call, at most Config.RememberHolds of them; at the bound the one that was granted
// first is forgotten, and counted. A hold that another replica ended stays until its lease is over for ownHoldLasts: that
// it ended is asked of Postgres when it would be shown, and said by Postgres when it is settled.

const (
	// holdShards keeps calls from waiting for each other: the lock of one is held for a few hundred nanoseconds.
	holdShards = 64
	// ownHoldLasts is how long after its lease a hold is remembered. By then a reaper has ended it, as long as there is one
	// that can.
	ownHoldLasts = time.Minute
	// sweepEvery is how often holds that are over are looked for.
	sweepEvery = 10 * time.Second
)

// ownHold is one of them: what its receipt carries, and how it stands.
type ownHold struct {
	tenant, id  string
	call        []byte // as the hold keeps it
	epoch       int64
	reservedAt  time.Time // in µs, as the store has it
	ends        time.Time // of the lease, by Redis' clock, in µs
	day, month  int32
	held        admit.Estimate
	fingerprint admit.Fingerprint
}

// ownHolds is safe for concurrent use.
type ownHolds struct {
	most      int // in one shard
	seed      maphash.Seed
	forgotten func()
	shards    [holdShards]holdShard
	// complete is the last epoch to which every hold was shown.
	complete atomic.Int64
	swept    atomic.Int64 // Unix ns
}

// newOwnHolds remembers at most so many holds; forgotten is told of each that goes because of that.
func newOwnHolds(most int, forgotten func()) *ownHolds {
	o := &ownHolds{most: (most + holdShards - 1) / holdShards, seed: maphash.MakeSeed(), forgotten: forgotten}
	for i := range o.shards {
		o.shards[i].init(o.most)
	}
	return o
}

func (o *ownHolds) find(tenant, id string) (s *holdShard, name uint64) {
	name = maphash.String(o.seed, id) ^ bits.RotateLeft64(maphash.String(o.seed, tenant), 32)
	return &o.shards[name%holdShards], name
}

// granted remembers a hold; nothing of h is kept but copies. A repeat, or an extension, only lengthens its lease and adds
// to what it holds.
func (o *ownHolds) granted(h ownHold) {
	if o.most == 0 {
		return
	}
	s, name := o.find(h.tenant, h.id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := s.at(name); at != nowhere {
		if old := &s.slots[at]; old.is(h.tenant, h.id, h.reservedAt) {
			old.grow(h.held, h.ends)
			return
		}
		s.remove(at) // of two that share a name, the later stays
	}
	if s.count >= o.most {
		s.remove(s.first)
		o.forgotten()
	}
	s.add(name, h)
}

// recall is a copy of a hold, false where none of that name is remembered.
func (o *ownHolds) recall(tenant, id string) (ownHold, bool) {
	s, name := o.find(tenant, id)
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.at(name)
	if at == nowhere || !s.slots[at].named(tenant, id) {
		return ownHold{}, false
	}
	return s.slots[at].copied(tenant, id), true
}

// ended forgets a hold that has a row in Postgres. The text is not compared, which would be one more place in memory to visit:
// to forget another one of the same name and instant, once in 2^64 times, would cost no more than at the bound.
func (o *ownHolds) ended(tenant, id string, reservedAt time.Time) {
	s, name := o.find(tenant, id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := s.at(name); at != nowhere && s.slots[at].reservedAt == reservedAt.UnixMicro() {
		s.remove(at)
	}
}

// unshown are copies of those that were not shown to an epoch yet, which is a later one than theirs.
func (o *ownHolds) unshown(epoch int64) []ownHold {
	var out []ownHold
	for i := range o.shards {
		o.shards[i].each(func(_ int32, h *heldSlot) {
			if h.shown < epoch && h.epoch < epoch {
				out = append(out, h.copied(h.whose()))
			}
		})
	}
	return out
}

// wasShown notes that a hold needs not be shown to that epoch again.
func (o *ownHolds) wasShown(h ownHold, epoch int64) {
	s, name := o.find(h.tenant, h.id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := s.at(name); at != nowhere && s.slots[at].is(h.tenant, h.id, h.reservedAt) {
		s.slots[at].shown = epoch
	}
}

// sweep forgets, now and then, what is over. The caller serves for ownHoldLasts already, so that a reaper had its turn.
func (o *ownHolds) sweep(now time.Time) {
	if last := o.swept.Load(); now.UnixNano()-last < int64(sweepEvery) || !o.swept.CompareAndSwap(last, now.UnixNano()) {
		return
	}
	over := now.Add(-ownHoldLasts).UnixMicro()
	for i := range o.shards {
		s := &o.shards[i]
		s.each(func(at int32, h *heldSlot) {
			if h.ends < over {
				s.remove(at)
			}
		})
	}
}

// count is how many are remembered.
func (o *ownHolds) count() (n int) {
	for i := range o.shards {
		s := &o.shards[i]
		s.mu.Lock()
		n += s.count
		s.mu.Unlock()
	}
	return n
}

// remember notes a hold that was granted here.
func (s *Service) remember(h hold) {
	a := h.Answer
	s.holds.granted(ownHold{tenant: h.Tenant, id: h.ID, call: h.rawCall, epoch: h.Epoch, reservedAt: a.ReservedAt, ends: a.LeaseUntil,
		day: a.Day, month: a.Month, held: a.Reserved, fingerprint: h.Fingerprint})
}

// rememberExtended notes a hold that was extended here, wherever it was granted.
func (s *Service) rememberExtended(subj *subject, held admit.Estimate, ends time.Time) {
	s.holds.granted(ownHold{tenant: subj.tenant, id: subj.id, call: subj.rawCall, epoch: subj.epoch, reservedAt: subj.reservedAt, ends: ends,
		day: subj.day, month: subj.month, held: held, fingerprint: subj.fingerprint})
}

// forget is for a hold that has ended.
func (s *Service) forget(subj *subject) { s.holds.ended(subj.tenant, subj.id, subj.reservedAt) }
