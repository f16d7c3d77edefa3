package holdcache

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-project/weir/pkg/domain/admit"
)

func holdOf(id string, at time.Time) Hold {
	return Hold{Tenant: "acme", ID: id, Call: []byte("call of " + id), Epoch: 1, ReservedAt: at, Ends: at.Add(time.Minute), Held: admit.Estimate{Nanos: 5}}
}

// Goal: what is remembered is what was granted or extended and has not ended, within the bound, whatever the order of calls.
// Method: a list, as the model, of which the first goes at the bound.
func TestRemember(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var forgotten int
		c := New(4*shardCount, func() { forgotten++ })
		at := time.Unix(1_800_000_000, 0)
		shards := map[*shard][]Hold{} // in the order of granting
		for n := range rapid.IntRange(0, 400).Draw(t, "calls") {
			id := fmt.Sprint(rapid.IntRange(0, 299).Draw(t, "id"))
			h := holdOf(id, at.Add(time.Duration(rapid.IntRange(0, 1).Draw(t, "life"))*time.Hour))
			shard, _ := c.find("acme", id)
			list := shards[shard]
			known := -1
			for i := range list {
				if list[i].ID == id {
					known = i
				}
			}
			same := known >= 0 && list[known].ReservedAt.Equal(h.ReservedAt)
			switch {
			case n%3 == 2:
				c.Delete("acme", id, h.ReservedAt)
				if same {
					list = append(list[:known:known], list[known+1:]...)
				}
			default:
				h.Held.Nanos = 1
				c.Put(h)
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
				want[h.ID] = h.ReservedAt
			}
		}
		got := c.Unshown(2)
		if len(got) != len(want) || c.Len() != len(want) {
			t.Fatalf("%d remembered, %d counted, want %d", len(got), c.Len(), len(want))
		}
		for _, h := range got {
			if at, ok := want[h.ID]; !ok || !at.Equal(h.ReservedAt) || string(h.Call) != "call of "+h.ID {
				t.Fatalf("%+v", h)
			}
		}
	})
}

// Goal: an extension lengthens the lease and grows the hold, a late and smaller answer does not take that back; a hold is
// shown once to an epoch, never to its own; it goes a minute after its lease, and the bound's losses are counted.
func TestLife(t *testing.T) {
	forgotten := 0
	c := New(shardCount, func() { forgotten++ }) // one in each shard
	at := time.Unix(1_800_000_000, 0)
	h := holdOf("r1", at)
	grown := h
	grown.Held.Nanos, grown.Ends = 9, at.Add(2*time.Minute)
	c.Put(grown)
	c.Put(h)
	if got := c.Unshown(2); len(got) != 1 || got[0].Held.Nanos != 9 || !got[0].Ends.Equal(grown.Ends) {
		t.Fatalf("extended: %+v", got)
	}
	if got := c.Unshown(1); len(got) != 0 {
		t.Errorf("shown to its own epoch: %+v", got)
	}
	c.MarkShown(h, 2)
	if got := c.Unshown(2); len(got) != 0 {
		t.Errorf("shown twice: %+v", got)
	}
	if got := c.Unshown(3); len(got) != 1 {
		t.Errorf("the next recovery: %+v", got)
	}
	c.Sweep(grown.Ends.Add(Lasts))
	if c.Len() != 1 {
		t.Error("it went too early")
	}
	c.Sweep(grown.Ends.Add(Lasts + sweepEvery))
	if c.Len() != 0 {
		t.Error("it stays")
	}
	for n := range 10 * shardCount {
		c.Put(holdOf(fmt.Sprint(n), at))
	}
	if c.Len() > shardCount || c.Len()+forgotten != 10*shardCount {
		t.Errorf("%d remembered, %d forgotten", c.Len(), forgotten)
	}
	none := New(0, func() { t.Error("nothing was remembered") })
	none.Put(h)
	none.Delete("acme", "r1", at)
	if none.Len() != 0 {
		t.Error("remembered")
	}
}

// Goal: calls at once on the same ids leave nothing behind that has ended.
func TestAtOnce(t *testing.T) {
	c := New(shardCount*8, func() {})
	at := time.Unix(1_800_000_000, 0)
	var calls sync.WaitGroup
	for n := range 8 {
		calls.Go(func() {
			for i := range 500 {
				id := string(rune('a'+n)) + string(rune('a'+i%26))
				c.Put(Hold{Tenant: "acme", ID: id, Call: []byte(id), Epoch: 1, ReservedAt: at, Ends: at, Held: admit.Estimate{Nanos: 1}})
				if i%50 == 0 {
					c.Unshown(2)
					c.Sweep(at)
				}
				if h, ok := c.Get("acme", id); ok && string(h.Call) != id { // its memory may be another's by now, but not the copy
					t.Errorf("%s is %s", id, h.Call)
				}
				c.Delete("acme", id, at)
			}
		})
	}
	calls.Wait()
	if c.Len() != 0 {
		t.Errorf("%d holds stay", c.Len())
	}
}

// What a reservation pays for being remembered, and its settle for being recalled and forgotten, by how many holds are open.
func BenchmarkCache(b *testing.B) {
	for _, open := range []int{1000, 50_000} {
		b.Run(fmt.Sprint(open), func(b *testing.B) {
			c := New(1<<17, func() {})
			at := time.Unix(1_800_000_000, 0)
			holds := make([]Hold, 2*open)
			for i := range holds {
				holds[i] = holdOf(fmt.Sprintf("reservation-%08d", i), at)
				holds[i].Call = []byte(strings.Repeat("c", 250))
			}
			for _, h := range holds[:open] {
				c.Put(h)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				c.Put(holds[(i+open)%len(holds)])
				id := holds[i%len(holds)].ID
				if _, ok := c.Get("acme", id); !ok {
					b.Fatal("forgotten")
				}
				c.Delete("acme", id, at)
			}
		})
	}
}
