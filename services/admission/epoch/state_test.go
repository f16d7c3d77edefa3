package epoch

import (
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/pgstore"
)

// Goal: the wait for the leases of a lost epoch is that of the replica whose leases reach farthest, whoever leads, and
// begins when nobody can still decide by what he read before.
func TestLeasesEndOfTheLongest(t *testing.T) {
	raised := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		own   Config
		reach time.Duration
		after time.Duration
	}{
		"alone":             {Config{MaxLease: 2 * time.Minute, Deadline: time.Second}, 0, 2*time.Minute + 3*time.Second},
		"slower stores":     {Config{MaxLease: 2 * time.Minute, Deadline: 5 * time.Second}, 0, 2*time.Minute + 7*time.Second},
		"another is longer": {Config{MaxLease: time.Minute, Deadline: time.Second}, 10 * time.Minute, 10*time.Minute + 2*time.Second},
		"it is the longest": {Config{MaxLease: 20 * time.Minute, Deadline: time.Second}, 10 * time.Minute, 20*time.Minute + 3*time.Second},
	} {
		row := pgstore.RedisEpoch{Epoch: 8, Lost: 7, RaisedAt: raised, LostActiveAt: raised, LeaseReach: c.reach}
		if got := leasesEnd(row, c.own.leaseReach()).Sub(raised); got != c.after {
			t.Errorf("%s: %s after the raise, want %s", name, got, c.after)
		}
	}
	if first := leasesEnd(pgstore.RedisEpoch{Epoch: 7}, time.Minute); !first.IsZero() {
		t.Errorf("a first epoch has lost nobody's leases: %s", first)
	}
}

// Goal: holds are forgotten by age only after a reaper had its turn: not while nobody is served, nor while Redis does not
// answer, nor soon after.
func TestServedFor(t *testing.T) {
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	e := new(state)
	ready := pgstore.RedisEpoch{Epoch: 7}
	served := func(now time.Time) bool { e.set(ready, now, nil); return e.servedFor(time.Minute, now) }
	if !served(at) {
		t.Error("nothing was ever amiss")
	}
	for name, amiss := range map[string]func(now time.Time){
		"refused":         func(now time.Time) { e.set(ready, now, ErrRefused) },
		"recovering":      func(now time.Time) { e.set(pgstore.RedisEpoch{Epoch: 8, Recovering: true}, now, nil) },
		"Redis is silent": func(now time.Time) { e.unanswered(now) },
	} {
		at = at.Add(time.Hour)
		amiss(at)
		if e.servedFor(time.Minute, at) || served(at.Add(59*time.Second)) || !served(at.Add(61*time.Second)) {
			t.Errorf("%s: it does not count from there", name)
		}
	}
	e.set(ready, at.Add(time.Hour), nil)
	if e.servedFor(time.Minute, at.Add(time.Hour+3*time.Second)) {
		t.Error("by what was read long ago")
	}
}
