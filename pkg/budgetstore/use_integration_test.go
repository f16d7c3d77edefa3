//go:build integration

package budgetstore

import (
	"testing"
	"time"
)

// A one-time value is used once by all attempts together; an attempt that ends without using it is in nobody's way.
func TestUse(t *testing.T) {
	w := newWorld(t)
	hold := func(owner string, want Use) {
		t.Helper()
		got, err := w.store.HoldUse(t.Context(), t.Name(), owner, time.Hour)
		w.must(err)
		if got != want {
			t.Errorf("%s: %d, want %d", owner, got, want)
		}
	}
	spend := func(owner string, want bool) {
		t.Helper()
		got, err := w.store.SpendUse(t.Context(), t.Name(), owner, time.Hour)
		w.must(err)
		if got != want {
			t.Errorf("%s: %v", owner, got)
		}
	}
	spend("a", false)
	hold("a", UseMine)
	hold("a", UseMine)
	hold("b", UseHeld)
	spend("b", false)
	w.must(w.store.client.Del(t.Context(), useKey(t.Name())).Err()) // a's hold ends
	hold("b", UseMine)
	spend("a", false)
	spend("b", true)
	spend("b", true)
	hold("a", UseSpent)
	spend("a", false)
	if ttl := w.store.client.PTTL(t.Context(), useKey(t.Name())).Val(); ttl < time.Minute {
		t.Errorf("it is kept for %v", ttl)
	}
}
