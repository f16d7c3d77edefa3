//go:build integration

package outbox_test

import (
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/weir-project/weir/pkg/outbox"
)

// TestRotation: published rows go, unpublished rows stay, and slots are reused without end.
func TestRotation(t *testing.T) {
	url := database(t)
	w, s := connect(t, url), lead(t, url)
	if r := rotate(t, s); r != (outbox.Rotation{}) {
		t.Fatalf("nothing to do: %+v", r)
	}
	for range 10 {
		write(t, w, event("a", "published"))
		drain(t, s, wide())
		if r := rotate(t, s); !r.Moved || r.Held != 0 {
			t.Fatalf("%+v", r)
		}
	}
	write(t, w, event("a", "unpublished"))
	if r := rotate(t, s); r.Emptied != 1 || !r.Moved {
		t.Fatalf("%+v", r)
	}
	if r := rotate(t, s); r.Emptied != 0 || r.Held != 1 {
		t.Fatalf("an unpublished row must hold its slot: %+v", r)
	}
	if got := drain(t, s, wide()); !slices.Equal(got, []string{"unpublished"}) {
		t.Fatal(got)
	}
	if r := rotate(t, s); r.Emptied != 1 || count(t, w, "SELECT count(*) FROM outbox") != 0 {
		t.Fatalf("%+v", r)
	}
}

// TestRotationLongWriter: a transaction that wrote to a slot holds that slot through any number of rotations, and no
// other; its rows arrive when it commits, and only then does the slot go.
func TestRotationLongWriter(t *testing.T) {
	url := database(t)
	w, s := connect(t, url), lead(t, url)
	slow := begin(t, connect(t, url))
	appendTo(t, slow, event("slow", "s1"))
	for range 8 {
		write(t, w, event("a", "fast"))
		if got := drain(t, s, wide()); !slices.Equal(got, []string{"fast"}) {
			t.Fatal(got)
		}
		rotate(t, s)
	}
	rotate(t, s) // one more, so that the last fast row's slot is empty as well
	if n := count(t, w, "SELECT count(DISTINCT slot) FROM outbox"); n != 1 {
		t.Fatalf("rows in %d slots, want only the held one", n)
	}
	appendTo(t, slow, event("slow", "s2")) // into another slot
	commit(t, slow)
	if r := rotate(t, s); r.Emptied != 0 {
		t.Fatalf("a slot with unpublished rows was emptied: %+v", r)
	}
	if got := drain(t, s, wide()); !slices.Equal(got, []string{"s1", "s2"}) {
		t.Fatal(got)
	}
	rotate(t, s)
	rotate(t, s)
	if n := count(t, w, "SELECT count(*) FROM outbox"); n != 0 {
		t.Fatalf("%d rows left", n)
	}
}

// TestRotationStaleChoice: a transaction whose snapshot is older than the rotation writes to a slot that was emptied
// since. Its row must arrive: this is where a dropped partition would lose it.
func TestRotationStaleChoice(t *testing.T) {
	url := database(t)
	w, s := connect(t, url), lead(t, url)
	write(t, w, event("a", "1"))
	drain(t, s, wide())
	stale, err := connect(t, url).BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	exec(t, stale, "SELECT current FROM outbox_slot") // fixes the snapshot: slot 0 is current in it for ever
	rotate(t, s)
	if r := rotate(t, s); r.Emptied != 1 {
		t.Fatalf("%+v", r)
	}
	appendTo(t, stale, event("a", "2"))
	if n := count(t, connect(t, url), "SELECT current FROM outbox_slot"); n == 0 {
		t.Fatal("the slot did not move")
	}
	if r := rotate(t, s); r.Held != 0 { // an uncommitted row is invisible: nothing seems to be there, so nothing is done
		t.Fatalf("%+v", r)
	}
	commit(t, stale)
	if r := rotate(t, s); r.Held != 1 || r.Emptied != 0 {
		t.Fatalf("%+v", r)
	}
	if got := drain(t, s, wide()); !slices.Equal(got, []string{"2"}) {
		t.Fatal(got)
	}
}

// TestRotationAllHeld: where every slot is held the current one grows, and nothing is lost.
func TestRotationAllHeld(t *testing.T) {
	url := database(t)
	s := lead(t, url)
	var slow []pgx.Tx
	for range 4 {
		tx := begin(t, connect(t, url))
		appendTo(t, tx, event("slow", "s"))
		slow = append(slow, tx)
		write(t, connect(t, url), event("a", "f"))
		drain(t, s, wide())
		rotate(t, s)
	}
	if r := rotate(t, s); r.Moved || r.Emptied != 0 || r.Held != 3 {
		t.Fatalf("%+v", r)
	}
	for _, tx := range slow {
		commit(t, tx)
	}
	if got := drain(t, s, wide()); len(got) != 4 {
		t.Fatal(got)
	}
	for range 2 {
		rotate(t, s)
	}
	if n := count(t, connect(t, url), "SELECT count(*) FROM outbox"); n != 0 {
		t.Fatalf("%d rows left", n)
	}
}
