package holdcache

import (
	"bytes"
	"math/bits"
	"sync"
	"time"

	"github.com/weir-project/weir/pkg/domain/admit"
)

// shard has the holds of some ids. A settle touches it twice, among 65,536 holds of which none is in a cache, so what
// counts is how many places in memory are visited: holds stand side by side in slots that are used again, and name each
// other by their places, in a table of chains and in the order of granting. (To forget one of 60,000, in no order, took a map
// of pointers 1.3 µs, and takes this 0.9 µs; and the garbage collector has half as many objects to look at.)
type shard struct {
	mu    sync.Mutex
	slots []slot
	// table has at name's upper bits the first hold of a chain (next).
	table       []int32
	first, last int32 // in the order of granting (before, after)
	free        int32 // linked by next
	count       int
}

// nowhere is no place in slots.
const nowhere = int32(-1)

// slot is a place for a hold. What finds and removes one comes first, within one line of the cache.
type slot struct {
	name       uint64 // the hash of tenant and id
	reservedAt int64  // Unix µs
	// text is tenant, id and call, one after the other; the two lengths tell them apart. Its memory is used again.
	text          []byte
	tenant, id    uint16
	next          int32
	before, after int32
	epoch         int64
	shown         int64 // the last epoch that it was shown to
	ends          int64 // Unix µs
	held          admit.Estimate
	fingerprint   admit.Fingerprint
	day, month    int32
}

// init makes room for the table of so many holds.
func (s *shard) init(most int) {
	s.first, s.last, s.free = nowhere, nowhere, nowhere
	s.table = make([]int32, 1<<bits.Len(uint(max(most, 1)-1))) // a power of two, at least most
	for i := range s.table {
		s.table[i] = nowhere
	}
}

// chain is where the chain of a name begins. The lower bits of a name choose the shard.
func (s *shard) chain(name uint64) *int32 { return &s.table[name>>32&uint64(len(s.table)-1)] }

// at is the place of the hold with that name.
func (s *shard) at(name uint64) int32 {
	at := *s.chain(name)
	for at != nowhere && s.slots[at].name != name {
		at = s.slots[at].next
	}
	return at
}

// each visits every hold, under the lock, in the order of granting. The visitor may remove the one it is at.
func (s *shard) each(visit func(at int32, h *slot)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for at := s.first; at != nowhere; {
		next := s.slots[at].after
		visit(at, &s.slots[at])
		at = next
	}
}

// add puts a hold into a free slot, or a new one.
func (s *shard) add(name uint64, h Hold) {
	at := s.free
	if at == nowhere {
		at = int32(len(s.slots))
		s.slots = append(s.slots, slot{})
	} else {
		s.free = s.slots[at].next
	}
	to, chain := &s.slots[at], s.chain(name)
	*to = slot{name: name, text: append(append(append(to.text[:0], h.Tenant...), h.ID...), h.Call...), tenant: uint16(len(h.Tenant)), id: uint16(len(h.ID)),
		epoch: h.Epoch, reservedAt: h.ReservedAt.UnixMicro(), ends: h.Ends.UnixMicro(), held: h.Held, fingerprint: h.Fingerprint, day: h.Day, month: h.Month,
		next: *chain, before: s.last, after: nowhere}
	*chain = at
	if s.last != nowhere {
		s.slots[s.last].after = at
	} else {
		s.first = at
	}
	s.last = at
	s.count++
}

// remove frees the slot of a hold.
func (s *shard) remove(at int32) {
	h := &s.slots[at]
	link := s.chain(h.name)
	for *link != at {
		link = &s.slots[*link].next
	}
	*link = h.next
	if h.before != nowhere {
		s.slots[h.before].after = h.after
	} else {
		s.first = h.after
	}
	if h.after != nowhere {
		s.slots[h.after].before = h.before
	} else {
		s.last = h.before
	}
	h.next, s.free = s.free, at
	s.count--
}

func (h *slot) named(tenant, id string) bool {
	return string(h.text[:h.tenant]) == tenant && string(h.text[h.tenant:h.tenant+h.id]) == id
}

func (h *slot) is(tenant, id string, reservedAt time.Time) bool {
	return h.reservedAt == reservedAt.UnixMicro() && h.named(tenant, id)
}

func (h *slot) whose() (tenant, id string) {
	return string(h.text[:h.tenant]), string(h.text[h.tenant : h.tenant+h.id])
}

// copied is the hold of that tenant and id, for whoever no longer holds the lock.
func (h *slot) copied(tenant, id string) Hold {
	return Hold{Tenant: tenant, ID: id, Call: bytes.Clone(h.text[h.tenant+h.id:]), Epoch: h.epoch, ReservedAt: time.UnixMicro(h.reservedAt).UTC(),
		Ends: time.UnixMicro(h.ends).UTC(), Day: h.day, Month: h.month, Held: h.held, Fingerprint: h.fingerprint}
}

func (h *slot) grow(held admit.Estimate, ends time.Time) {
	h.held = admit.Estimate{Nanos: max(h.held.Nanos, held.Nanos), InputTokens: max(h.held.InputTokens, held.InputTokens),
		OutputTokens: max(h.held.OutputTokens, held.OutputTokens)}
	h.ends = max(h.ends, ends.UnixMicro())
}
