package budgetstore

import (
	"errors"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
)

// What a stream does not accept fails at once.
func TestStreamBounds(t *testing.T) {
	full := &stream{wake: make(chan struct{}, 1), open: maxQueued}
	if err := full.do(t.Context(), &sharedCall{}); !errors.Is(err, errStreamFull) || len(full.queue) > 0 {
		t.Errorf("full: %v", err)
	}
	closed := newStream(nil, nil)
	closed.close()
	closed.close()
	if err := closed.do(t.Context(), &sharedCall{}); !errors.Is(err, errStreamClosed) {
		t.Errorf("closed: %v", err)
	}
	long := &stream{queue: make([]*sharedCall, maxShared+3)}
	if first, rest := long.take(), long.take(); len(first) != maxShared || len(rest) != 3 || len(long.take()) > 0 {
		t.Errorf("took %d, then %d", len(first), len(rest))
	}
}

// Only calls of one tenant and kind go together, at most maxGroup of them, in their order.
func TestGrouped(t *testing.T) {
	var calls []*sharedCall
	for i := range 2*maxGroup + 6 {
		calls = append(calls, &sharedCall{key: [...]string{"a", "b", ""}[i%3], parts: []any{i}})
	}
	sizes := map[string]string{}
	for _, group := range grouped(calls) {
		for i, c := range group {
			if c.key != group[0].key || i > 0 && (c.key == "" || c.parts[0].(int) != group[i-1].parts[0].(int)+3) {
				t.Errorf("%v after %v", c, group[0])
			}
		}
		sizes[group[0].key] += fmt.Sprint(len(group), " ")
	}
	if sizes["a"] != "45 " || sizes["b"] != "45 " || len(sizes[""]) != 2*44 {
		t.Errorf("%q", sizes)
	}
	all := make([]*sharedCall, maxGroup+1)
	for i := range all {
		all[i] = &sharedCall{key: "a"}
	}
	if groups := grouped(all); len(groups) != 2 || len(groups[0]) != maxGroup || len(groups[1]) != 1 {
		t.Errorf("%d groups", len(groups))
	}
	loaded, err := loadScripts()
	if err != nil {
		t.Fatal(err)
	}
	kinds := make([]*sharedCall, 6)
	for i := range kinds {
		kinds[i] = &sharedCall{key: "a", joint: []*redis.Script{loaded.batch, loaded.finish, loaded.finish}[i%3]}
	}
	if groups := grouped(kinds); len(groups) != 2 || len(groups[0]) != 2 || len(groups[1]) != 4 || groups[0][1] != kinds[3] || groups[1][0] != kinds[1] {
		t.Errorf("two kinds: %d groups", len(groups))
	}
}
