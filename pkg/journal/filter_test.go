package journal

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-project/weir/pkg/bus"
)

func at(second int) time.Time { return time.Unix(int64(second), 0) }

func TestSeen(t *testing.T) {
	type step struct {
		id     string
		offset int64
		ts     int
		want   bool
	}
	for name, c := range map[string]struct {
		ids   int
		age   time.Duration
		steps []step
		len   int
		early uint64
	}{
		"duplicate at a higher offset":         {9, time.Hour, []step{{"a", 1, 0, false}, {"b", 2, 0, false}, {"a", 3, 0, true}, {"a", 4, 0, true}}, 2, 0},
		"a redelivered record is no duplicate": {9, time.Hour, []step{{"a", 1, 0, false}, {"a", 3, 0, true}, {"a", 1, 0, false}, {"a", 3, 0, true}}, 1, 0},
		"a rewind below what was warmed":       {9, time.Hour, []step{{"a", 7, 0, false}, {"a", 2, 0, false}, {"a", 7, 0, true}}, 1, 0},
		"forgotten by age":                     {9, 10 * time.Second, []step{{"a", 1, 0, false}, {"b", 2, 10, false}, {"c", 3, 11, false}, {"a", 4, 11, false}, {"b", 5, 11, true}}, 3, 0},
		"forgotten by count, and told":         {2, time.Hour, []step{{"a", 1, 0, false}, {"b", 2, 0, false}, {"c", 3, 0, false}, {"b", 4, 0, true}, {"a", 5, 0, false}}, 2, 2},
		"a clock far ahead":                    {20, time.Second, []step{{"a", 1, 0, false}, {"b", 2, 1 << 40, false}, {"a", 3, 0, true}, {"a", 4, 0, true}}, 2, 0},
		"room for one":                         {1, time.Hour, []step{{"a", 1, 0, false}, {"a", 2, 0, true}}, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFilter(c.ids, c.age)
			for i, s := range c.steps {
				if got := f.Seen(s.id, s.offset, at(s.ts)); got != s.want {
					t.Errorf("step %d %+v: %v", i, s, got)
				}
			}
			if f.Len() != c.len || f.EvictedEarly() != c.early {
				t.Errorf("%d ids, %d evicted early; want %d, %d", f.Len(), f.EvictedEarly(), c.len, c.early)
			}
		})
	}
}

// However a log with duplicates is redelivered (crash and go on from any earlier offset, with the filter kept), each id
// is accepted at its first offset and nowhere else.
func TestFirstOccurrenceAloneIsAccepted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := rapid.SliceOfN(rapid.IntRange(0, 8), 1, 60).Draw(t, "ids")
		first := map[int]int{}
		for offset, id := range log {
			if _, ok := first[id]; !ok {
				first[id] = offset
			}
		}
		f := newFilter(100, time.Hour)
		for offset, rewinds := 0, 0; offset < len(log); offset++ {
			id := log[offset]
			if got, want := f.Seen(fmt.Sprint(id), int64(offset), at(offset)), first[id] < offset; got != want {
				t.Fatalf("offset %d: duplicate %v, want %v", offset, got, want)
			}
			if rewinds < 3 && rapid.IntRange(0, 9).Draw(t, "crash") == 0 {
				rewinds++
				offset = rapid.IntRange(0, offset).Draw(t, "rewind") - 1
			}
		}
	})
}

func TestBoundHolds(t *testing.T) {
	f := newFilter(100, time.Minute)
	for i := range 10_000 {
		f.Seen(fmt.Sprint(i), int64(i), at(i))
		if f.Len() > 100 {
			t.Fatalf("%d ids", f.Len())
		}
	}
	if f.Len() != 61 { // one record a second, one minute and its two ends
		t.Errorf("%d ids are left of a minute", f.Len())
	}
}

type reader []bus.Record

func (r reader) ReadPartition(_ context.Context, _ bus.Topic, _ int32, from, to int64, fn func(bus.Record) error) error {
	for _, rec := range r {
		if rec.Offset >= from && rec.Offset < to {
			if err := fn(rec); err != nil {
				return err
			}
		}
	}
	return nil
}

func TestWarm(t *testing.T) {
	var r reader
	for i, v := range []string{"a", "b", "", "c", "d"} {
		r = append(r, bus.Record{Offset: int64(i), Value: []byte(v), Timestamp: at(i)})
	}
	id := func(rec bus.Record) (string, error) { return string(rec.Value), nil }
	f := newFilter(3, time.Hour)
	if err := f.Warm(t.Context(), r, bus.Topic{}, 0, 4, id); err != nil {
		t.Fatal(err)
	}
	if f.Len() != 2 || !f.Seen("b", 9, at(9)) || !f.Seen("c", 9, at(9)) || f.Seen("a", 9, at(9)) || f.Seen("d", 4, at(9)) {
		t.Error("exactly b and c lie in the last three records before offset 4")
	}
	broken := errors.New("broken record")
	if err := f.Warm(t.Context(), r, bus.Topic{}, 0, 4, func(bus.Record) (string, error) { return "", broken }); !errors.Is(err, broken) {
		t.Errorf("error of id: %v", err)
	}
	if err := f.Warm(t.Context(), nil, bus.Topic{}, 0, -1, id); err != nil {
		t.Errorf("nothing committed: %v", err)
	}
}

// A late write of a dead owner comes up to the longest session time-out and the delivery time-out after the first, however much is
// written meanwhile, within the bound: it is a duplicate to every reader.
func TestLatestDuplicateIsKnown(t *testing.T) {
	const apart, entries = 5*60 + 30, 150_000 // seconds
	f := NewFilter()
	for i := range entries {
		f.Seen(fmt.Sprint(i), int64(i), at(i*apart/entries))
	}
	if !f.Seen("0", entries, at(apart)) || f.EvictedEarly() != 0 {
		t.Errorf("the first id was forgotten, %d of them early", f.EvictedEarly())
	}
}
