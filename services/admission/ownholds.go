package admission

import (
	"bytes"
	"hash/maphash"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-project/weir/pkg/domain/admit"
)

// Open holds that this replica has granted or extended itself. When Redis is lost they are shown in the place of an owner
// who is silent (recovery_show.go), so that nobody is admitted for what such an owner may still settle.
//
// Memory: about 400 B a hold with its call, at most Config.RememberHolds of them; at the bound the one that was granted
// first is forgotten, and counted. A hold that another replica ended stays until its lease is over for ownHoldLasts: that
// it ended is asked of Postgres when it would be shown.

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
	tenant      string
	id, call    []byte // call as the hold keeps it
	epoch       int64
	reservedAt  time.Time
	ends        time.Time // of the lease, by Redis' clock
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

// holdShard has the holds of some ids. What is removed is used again, so that a hold costs no memory of its own to remember.
type holdShard struct {
	mu          sync.Mutex
	byName      map[uint64]*heldEntry // by the hash of tenant and id: of two that share one, the later stays
	first, last *heldEntry            // in the order of granting
	free        *heldEntry            // linked by after; no more than were remembered at a time
}

type heldEntry struct {
	ownHold       // whose id and call are parts of text
	name          uint64
	text          []byte
	shown         int64 // the last epoch that it was shown to
	before, after *heldEntry
}

// newOwnHolds remembers at most so many holds; forgotten is told of each that goes because of that.
func newOwnHolds(most int, forgotten func()) *ownHolds {
	o := &ownHolds{most: (most + holdShards - 1) / holdShards, seed: maphash.MakeSeed(), forgotten: forgotten}
	for i := range o.shards {
		o.shards[i].byName = map[uint64]*heldEntry{}
	}
	return o
}

func (o *ownHolds) find(tenant, id string) (s *holdShard, name uint64) {
	name = maphash.String(o.seed, id) ^ bits.RotateLeft64(maphash.String(o.seed, tenant), 32)
	return &o.shards[name%holdShards], name
}

// granted remembers a hold; id and call are copied. A repeat, or an extension, only lengthens its lease and adds to what it
// holds.
func (o *ownHolds) granted(id string, call []byte, h ownHold) {
	if o.most == 0 {
		return
	}
	s, name := o.find(h.tenant, id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.byName[name]; old != nil {
		if old.is(h.tenant, id, h.reservedAt) {
			old.grow(h.held, h.ends)
			return
		}
		s.remove(old)
	}
	if len(s.byName) >= o.most {
		s.remove(s.first)
		o.forgotten()
	}
	s.add(name, id, call, h)
}

func (h *ownHold) is(tenant, id string, reservedAt time.Time) bool {
	return h.reservedAt.Equal(reservedAt) && string(h.id) == id && h.tenant == tenant
}

func (h *ownHold) grow(held admit.Estimate, ends time.Time) {
	h.held = admit.Estimate{Nanos: max(h.held.Nanos, held.Nanos), InputTokens: max(h.held.InputTokens, held.InputTokens),
		OutputTokens: max(h.held.OutputTokens, held.OutputTokens)}
	if ends.After(h.ends) {
		h.ends = ends
	}
}

// ended forgets a hold that has a row in Postgres.
func (o *ownHolds) ended(tenant, id string, reservedAt time.Time) {
	s, name := o.find(tenant, id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.byName[name]; h != nil && h.is(tenant, id, reservedAt) {
		s.remove(h)
	}
}

// unshown are copies of those that were not shown to an epoch yet, which is a later one than theirs.
func (o *ownHolds) unshown(epoch int64) []ownHold {
	var out []ownHold
	for i := range o.shards {
		s := &o.shards[i]
		s.mu.Lock()
		for h := s.first; h != nil; h = h.after {
			if h.shown < epoch && h.epoch < epoch {
				copied := h.ownHold
				copied.id, copied.call = bytes.Clone(h.id), bytes.Clone(h.call)
				out = append(out, copied)
			}
		}
		s.mu.Unlock()
	}
	return out
}

// wasShown notes that a hold needs not be shown to that epoch again.
func (o *ownHolds) wasShown(h ownHold, epoch int64) {
	s, name := o.find(h.tenant, string(h.id))
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := s.byName[name]; at != nil && at.is(h.tenant, string(h.id), h.reservedAt) {
		at.shown = epoch
	}
}

// sweep forgets, now and then, what is over. The caller serves for ownHoldLasts already, so that a reaper had its turn.
func (o *ownHolds) sweep(now time.Time) {
	if last := o.swept.Load(); now.UnixNano()-last < int64(sweepEvery) || !o.swept.CompareAndSwap(last, now.UnixNano()) {
		return
	}
	for i := range o.shards {
		s := &o.shards[i]
		s.mu.Lock()
		for h := s.first; h != nil; {
			next := h.after
			if now.Sub(h.ends) > ownHoldLasts {
				s.remove(h)
			}
			h = next
		}
		s.mu.Unlock()
	}
}

// count is how many are remembered.
func (o *ownHolds) count() (n int) {
	for i := range o.shards {
		s := &o.shards[i]
		s.mu.Lock()
		n += len(s.byName)
		s.mu.Unlock()
	}
	return n
}

func (s *holdShard) add(name uint64, id string, call []byte, h ownHold) {
	e := s.free
	if e == nil {
		e = &heldEntry{}
	} else {
		s.free = e.after
	}
	e.text = append(append(e.text[:0], id...), call...)
	h.id, h.call = e.text[:len(id):len(id)], e.text[len(id):]
	e.ownHold, e.name, e.shown, e.before, e.after = h, name, 0, s.last, nil
	s.byName[name] = e
	if s.last != nil {
		s.last.after = e
	} else {
		s.first = e
	}
	s.last = e
}

func (s *holdShard) remove(e *heldEntry) {
	delete(s.byName, e.name)
	if e.before != nil {
		e.before.after = e.after
	} else {
		s.first = e.after
	}
	if e.after != nil {
		e.after.before = e.before
	} else {
		s.last = e.before
	}
	e.before, e.after, s.free = nil, s.free, e
}

// remember notes a hold that was granted here.
func (s *Service) remember(h hold) {
	a := h.Answer
	s.holds.granted(h.ID, h.rawCall, ownHold{tenant: h.Tenant, epoch: h.Epoch, reservedAt: a.ReservedAt, ends: a.LeaseUntil,
		day: a.Day, month: a.Month, held: a.Reserved, fingerprint: h.Fingerprint})
}

// rememberExtended notes a hold that was extended here, wherever it was granted.
func (s *Service) rememberExtended(subj subject, held admit.Estimate, ends time.Time) {
	s.holds.granted(subj.id, subj.rawCall, ownHold{tenant: subj.tenant, epoch: subj.epoch, reservedAt: subj.reservedAt, ends: ends,
		day: subj.day, month: subj.month, held: held, fingerprint: subj.fingerprint})
}

// forget is for a hold that has ended.
func (s *Service) forget(subj subject) { s.holds.ended(subj.tenant, subj.id, subj.reservedAt) }
