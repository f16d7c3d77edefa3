package admission

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-project/weir/pkg/domain/admit"
)

func ownHoldOf(id string, at time.Time) ownHold {
	return ownHold{tenant: "acme", id: id, call: []byte("call of " + id), epoch: 1, reservedAt: at, ends: at.Add(time.Minute), held: admit.Estimate{Nanos: 5}}
}

// Goal: what is remembered is what was granted or extended and has not ended, within the bound, whatever the order of calls.
// Method: a list, as the model, of which the first goes at the bound.
func TestOwnHoldsRemember(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var forgotten int
		o := newOwnHolds(4*holdShards, func() { forgotten++ })
		at := time.Unix(1_800_000_000, 0)
		shards := map[*holdShard][]ownHold{} // in the order of granting
		for n := range rapid.IntRange(0, 400).Draw(t, "calls") {
			id := fmt.Sprint(rapid.IntRange(0, 299).Draw(t, "id"))
			h := ownHoldOf(id, at.Add(time.Duration(rapid.IntRange(0, 1).Draw(t, "life"))*time.Hour))
			shard, _ := o.find("acme", id)
			list := shards[shard]
			known := -1
			for i := range list {
				if list[i].id == id {
					known = i
				}
			}
			same := known >= 0 && list[known].reservedAt.Equal(h.reservedAt)
			switch {
			case n%3 == 2:
				o.ended("acme", id, h.reservedAt)
				if same {
					list = append(list[:known:known], list[known+1:]...)
				}
			default:
				h.held.Nanos = 1
				o.granted(h)
				if same {
					break
				}
				if known >= 0 {
					list = append(list[:known:known], list[known+1:]...)
				}
				if list = append(list, h); len(list) > 4 {
					list = list[1:]
				}
			}
			shards[shard] = list
		}
		want := map[string]time.Time{}
		for _, list := range shards {
			for _, h := range list {
				want[h.id] = h.reservedAt
			}
		}
		got := o.unshown(2)
		if len(got) != len(want) || o.count() != len(want) {
			t.Fatalf("%d remembered, %d counted, want %d", len(got), o.count(), len(want))
		}
		for _, h := range got {
			if at, ok := want[h.id]; !ok || !at.Equal(h.reservedAt) || string(h.call) != "call of "+h.id {
				t.Fatalf("%+v", h)
			}
		}
	})
}

// Goal: an extension lengthens the lease and grows the hold, a late and smaller answer does not take that back; a hold is
// shown once to an epoch, never to its own; it goes a minute after its lease, and the bound's losses are counted.
func TestOwnHoldsLife(t *testing.T) {
	forgotten := 0
	o := newOwnHolds(holdShards, func() { forgotten++ }) // one in each shard
	at := time.Unix(1_800_000_000, 0)
	h := ownHoldOf("r1", at)
	grown := h
	grown.held.Nanos, grown.ends = 9, at.Add(2*time.Minute)
	o.granted(grown)
	o.granted(h)
	if got := o.unshown(2); len(got) != 1 || got[0].held.Nanos != 9 || !got[0].ends.Equal(grown.ends) {
		t.Fatalf("extended: %+v", got)
	}
	if got := o.unshown(1); len(got) != 0 {
		t.Errorf("shown to its own epoch: %+v", got)
	}
	o.wasShown(h, 2)
	if got := o.unshown(2); len(got) != 0 {
		t.Errorf("shown twice: %+v", got)
	}
	if got := o.unshown(3); len(got) != 1 {
		t.Errorf("the next recovery: %+v", got)
	}
	o.sweep(grown.ends.Add(ownHoldLasts))
	if o.count() != 1 {
		t.Error("it went too early")
	}
	o.sweep(grown.ends.Add(ownHoldLasts + sweepEvery))
	if o.count() != 0 {
		t.Error("it stays")
	}
	for n := range 10 * holdShards {
		o.granted(ownHoldOf(fmt.Sprint(n), at))
	}
	if o.count() > holdShards || o.count()+forgotten != 10*holdShards {
		t.Errorf("%d remembered, %d forgotten", o.count(), forgotten)
	}
	none := newOwnHolds(0, func() { t.Error("nothing was remembered") })
	none.granted(h)
	none.ended("acme", "r1", at)
	if none.count() != 0 {
		t.Error("remembered")
	}
}

// What a reservation pays for being remembered, and its settle for being recalled and forgotten, by how many holds are open.
func BenchmarkOwnHolds(b *testing.B) {
	for _, open := range []int{1000, 50_000} {
		b.Run(fmt.Sprint(open), func(b *testing.B) {
			o := newOwnHolds(1<<17, func() {})
			at := time.Unix(1_800_000_000, 0)
			holds := make([]ownHold, 2*open)
			for i := range holds {
				holds[i] = ownHoldOf(fmt.Sprintf("reservation-%08d", i), at)
				holds[i].call = []byte(strings.Repeat("c", 250))
			}
			for _, h := range holds[:open] {
				o.granted(h)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				o.granted(holds[(i+open)%len(holds)])
				id := holds[i%len(holds)].id
				if _, ok := o.recall("acme", id); !ok {
					b.Fatal("forgotten")
				}
				o.ended("acme", id, at)
			}
		})
	}
}
