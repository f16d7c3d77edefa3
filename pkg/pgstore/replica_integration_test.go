//go:build integration

package pgstore_test

import (
	"slices"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/pgstore"
)

// Goal: what replicas say of themselves is known to the others for 3 s, and the longest lease for as long as it may run.
func TestReplicas(t *testing.T) {
	f := open(t)
	report := func(id string, sees, shown int64, reach time.Duration) {
		f.must(f.Report(t.Context(), pgstore.Replica{ID: id, Sees: sees, Shown: shown, LeaseReach: reach}))
	}
	others := func() { // before each question: what they said is known for 3 s
		report("b", 0, 8, time.Minute)
		report("c", 7, 0, time.Minute)
		report("c", 6, 7, time.Minute) // the last word counts
	}
	report("a", 7, 0, 10*time.Minute)
	others()
	see, err := f.OthersSee(t.Context(), "b", 7)
	f.must(err)
	self, err := f.OthersSee(t.Context(), "a", 7)
	f.must(err)
	unshown, err := f.Unshown(t.Context(), 8)
	f.must(err)
	if see != 1 || self != 0 || unshown != 2 {
		t.Errorf("%d others see it, %d besides the one that does, %d have not shown their holds", see, self, unshown)
	}
	if reach := f.epochRow().LeaseReach; reach != 10*time.Minute {
		t.Errorf("leases reach %s", reach)
	}

	conn := f.connect()
	age := func(id, by string) {
		_, err := conn.Exec(t.Context(), "UPDATE admission_replicas SET at = at - $2::interval WHERE replica = $1", id, by)
		f.must(err)
	}
	age("a", "4 seconds")
	others()
	if see, err = f.OthersSee(t.Context(), "b", 7); err != nil || see != 0 {
		t.Errorf("%d others see it, of which one is gone: %v", see, err)
	}
	if unshown, err = f.Unshown(t.Context(), 8); err != nil || unshown != 1 {
		t.Errorf("%d have not shown their holds, besides one that is gone: %v", unshown, err)
	}
	if reach := f.epochRow().LeaseReach; reach != 10*time.Minute {
		t.Errorf("the leases of one that is gone reach %s", reach)
	}
	age("a", "12 minutes")
	if reach := f.epochRow().LeaseReach; reach != time.Minute {
		t.Errorf("leases that are over reach %s", reach)
	}
	age("a", "2 days")
	_, err = f.Prune(t.Context(), time.Unix(0, 0), time.Unix(0, 0), 10)
	f.must(err)
	var left int
	f.must(conn.QueryRow(t.Context(), "SELECT count(*) FROM admission_replicas").Scan(&left))
	if left != 2 {
		t.Errorf("%d replicas are kept", left)
	}
}

// Goal: the Redis in which a loss was seen is known to whoever leads, and of the next loss it is another.
func TestRaisedIn(t *testing.T) {
	f := open(t)
	_, err := f.RaiseEpoch(t.Context(), 7, 8, 1, nil, "x", "y")
	f.must(err)
	if in := f.epochRow().RaisedIn; !slices.Equal(in, []string{"x", "y"}) {
		t.Errorf("raised in %v", in)
	}
	_, err = f.RaiseEpoch(t.Context(), 8, 9, 1, nil)
	f.must(err)
	if in := f.epochRow().RaisedIn; len(in) > 0 {
		t.Errorf("then in %v", in)
	}
}

// Goal: of many reservations it is known which have ended, by tenant, id and instant: a row says nothing of a later one.
func TestEnded(t *testing.T) {
	f := open(t)
	for _, r := range []pgstore.Reservation{{Tenant: "acme", ID: "r1"}, {Tenant: "other", ID: "r2"}} {
		_, done, err := f.End(t.Context(), pgstore.Row{Tenant: r.Tenant, ReservationID: r.ID, ReservedAt: at(5), Outcome: pgstore.Released, Epoch: 7}, nil)
		f.must(err)
		if !done {
			t.Fatal("not ended")
		}
	}
	ended, err := f.Ended(t.Context(), []pgstore.Reservation{{Tenant: "acme", ID: "r2", ReservedAt: at(5)}, {Tenant: "acme", ID: "r1", ReservedAt: at(5)},
		{Tenant: "acme", ID: "r1", ReservedAt: at(6)}, {Tenant: "acme", ID: "r1", ReservedAt: at(4)}})
	if want := []bool{false, true, false, true}; err != nil || !slices.Equal(ended, want) {
		t.Errorf("%v, want %v: %v", ended, want, err)
	}
}
