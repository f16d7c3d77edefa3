//go:build integration

package budgetstore

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// Goal: while a running Redis takes no writes, Inspect says why before any reservation is tried, with the reason that a
// reservation gets; both end with the cause.
func TestRefuses(t *testing.T) {
	w := newWorld(t)
	for kind, c := range map[string][2]string{"OOM": {"maxmemory", "1000000"}, "NOREPLICAS": {"min-replicas-to-write", "1"}} {
		w.must(w.store.client.ConfigSet(t.Context(), c[0], c[1]).Err())
		now, err := w.store.Inspect(t.Context())
		if r, _ := AsRefusal(now.Refuses); err != nil || r.Kind != kind {
			t.Errorf("%s: %v, %v", kind, now.Refuses, err)
		}
		_, err = w.store.Reserve(t.Context(), w.request(dollar))
		if r, _ := AsRefusal(err); r.Kind != kind {
			t.Errorf("%s: a reservation: %v", kind, err)
		}
		w.must(w.store.client.ConfigSet(t.Context(), c[0], "0").Err())
		if now, err := w.store.Inspect(t.Context()); err != nil || now.Refuses != nil {
			t.Errorf("after %s: %v, %v", kind, now.Refuses, err)
		}
		w.admit(w.request(dollar))
	}
}

// Goal: Inspect says what Redis' own clock says, or what stands for it in the scripts.
func TestInspectClock(t *testing.T) {
	w := newWorld(t)
	now, err := w.store.Inspect(t.Context())
	if err != nil || len(now.Clocks) != 1 || !now.Clocks[0].Equal(w.clock.now()) {
		t.Errorf("%v, not %s: %v", now.Clocks, w.clock.now(), err)
	}
	own, err := Open(t.Context(), w.store.url, Options{})
	w.must(err)
	defer own.Close()
	before, err := own.client.Time(t.Context()).Result()
	w.must(err)
	now, err = own.Inspect(t.Context())
	w.must(err)
	after, err := own.client.Time(t.Context()).Result()
	w.must(err)
	if len(now.Clocks) != 1 || now.Clocks[0].Before(before.Truncate(time.Microsecond)) || now.Clocks[0].After(after) {
		t.Errorf("%v is not between %s and %s", now.Clocks, before, after)
	}
}

// Goal: no new connection is made to a Redis that is a replica, not even while it still has the id under which it is known; and a
// call by an old connection has that told at once. Method: one is made the replica of a server that does not exist.
func TestNoConnectionToAReplica(t *testing.T) {
	w := newWorld(t)
	now, err := w.store.Inspect(t.Context())
	w.must(err)
	w.must(w.store.Compare(t.Context())) // any
	w.store.Allow([]string{"another"})
	if err := w.store.Compare(t.Context()); !errors.Is(err, ErrReplaced) {
		t.Errorf("compare with another: %v", err)
	}
	w.store.Allow(now.ReplicationIDs)
	w.must(w.store.Compare(t.Context()))
	w.must(w.store.probe.SlaveOf(t.Context(), "127.0.0.1", "1").Err())
	info, err := w.store.probe.Info(t.Context(), "replication").Result()
	if err != nil || !strings.Contains(info, now.ReplicationIDs[0]) {
		t.Fatalf("it has another id already: %s, %v", info, err)
	}
	told := func(by string) {
		t.Helper()
		select {
		case <-w.store.Replaced():
		default:
			t.Errorf("nobody is told by %s", by)
		}
	}
	_, err = w.store.Reserve(t.Context(), w.request(dollar))
	if r, _ := AsRefusal(err); r != ErrReplica || !errors.Is(err, ErrUnavailable) {
		t.Errorf("a reservation by an old connection: %v", err)
	}
	told("an old connection")
	fresh, err := w.store.Afresh()
	w.must(err)
	defer fresh.Close()
	if err := fresh.Ping(t.Context()); !errors.Is(err, ErrReplica) {
		t.Errorf("a new connection: %v", err)
	}
	told("a new one")
	if err := w.store.Compare(t.Context()); !errors.Is(err, ErrReplica) {
		t.Errorf("compare: %v", err)
	}
	if _, err := w.store.Inspect(t.Context()); !errors.Is(err, ErrReplica) {
		t.Errorf("inspect: %v", err)
	}
}
