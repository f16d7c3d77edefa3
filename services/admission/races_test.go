//go:build integration

package admission

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/money"
)

// rivals are callers who know of each other's reservations, at three replicas at once.
type rivals struct {
	*desk
	t        *testing.T
	replicas []process
	mu       sync.Mutex
	told     map[string]map[string]int // reservation, its id and instant → what its settles were answered
	released map[string]bool
	receipts map[string]string
	count    map[string]int
}

// Goal: settle, release, extension, expiry, the journal and repeats of all of them race for the same reservations at three
// replicas, with Redis going away and answers getting lost in between: no ceiling is passed at any moment, each reservation
// ends once, everybody is told the same, and in the end Redis and the books agree to the nano-dollar. Method: few ids, many
// callers, one logical clock; settles stay within what is held.
func TestRacesForReservations(t *testing.T) {
	d := newDesk(t, one(contract()))
	d.clock.us.Store(time.Date(2026, 7, 15, 10, 0, 0, 0, time.UTC).UnixMicro())
	r := &rivals{desk: d, t: t, replicas: []process{d.process}, told: map[string]map[string]int{}, released: map[string]bool{}, receipts: map[string]string{}, count: map[string]int{}}
	for range 2 {
		p := d.another()
		t.Cleanup(p.stop)
		r.replicas = append(r.replicas, p)
	}
	k := contract()
	k.Ceilings.Minute, k.Limits.Concurrency = 20*dollar, 40
	d.addTenant("rivals", k, r.replicas[1:]...)
	r.forward(time.Millisecond)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)

	var over atomic.Bool
	var callers, keepers sync.WaitGroup
	for n := range 6 {
		callers.Go(func() { r.calls(rand.New(rand.NewPCG(seed, uint64(n))), 250) })
	}
	books := newBooks(d, "rivals", 0)
	keepers.Go(func() { r.keeps(rand.New(rand.NewPCG(seed, 99)), books, &over) })
	callers.Wait()
	over.Store(true)
	keepers.Wait()
	r.close(books)
	t.Logf("%v", r.count)
}

// forward moves the clock for all replicas.
func (r *rivals) forward(by time.Duration) {
	r.clock.advance(by)
	for _, p := range r.replicas {
		p.compareEpoch()
	}
}

// calls makes random calls about few reservations.
func (r *rivals) calls(random *rand.Rand, n int) {
	for i := range n {
		p, id := r.replicas[random.IntN(3)], fmt.Sprint("r", i/10*10+random.IntN(8))
		path, body := "/v1/reservations/"+id+"/", object{}
		r.mu.Lock()
		if receipt := r.receipts[id]; receipt != "" && random.IntN(2) == 0 {
			body["receipt"] = receipt
		}
		r.mu.Unlock()
		switch random.IntN(10) {
		case 0, 1, 2:
			status, out := p.call(r.world, "rivals", "POST", "/v1/reservations", object{"reservation_id": id, "provider": "openai", "model": "flat",
				"lease_seconds": 5, "estimate": object{"max_output_tokens": 40}})
			r.saw("reserve", status, out)
			if receipt, ok := out["receipt"].(string); ok {
				r.mu.Lock()
				r.receipts[id] = receipt
				r.mu.Unlock()
			}
		case 3, 4, 5, 6:
			body["meters"] = object{"output_tokens": 10 + random.IntN(3)}
			status, out := p.call(r.world, "rivals", "POST", path+"settle", body)
			r.saw("settle", status, out)
			if status == 200 {
				_, which, _ := strings.Cut(fmt.Sprint(out["event_id"]), ":")
				r.mu.Lock()
				if r.told[which] == nil {
					r.told[which] = map[string]int{}
				}
				r.told[which][fmt.Sprint(out["cost_usd"], " ", out["event_id"])]++
				r.mu.Unlock()
			}
		case 7:
			status, out := p.call(r.world, "rivals", "POST", path+"release", body)
			r.saw("release", status, out)
			if status == 200 {
				r.mu.Lock()
				r.released[id] = true
				r.mu.Unlock()
			}
		default:
			status, out := p.call(r.world, "rivals", "POST", path+"extend", body)
			r.saw("extend", status, out)
		}
	}
}

func (r *rivals) saw(what string, status int, out object) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count[fmt.Sprint(what, " ", status)]++
	switch status {
	case 200, 201, 404, 409, 429, 503:
	default:
		r.t.Errorf("%s: %d %v", what, status, out)
	}
}

// keeps does what runs beside the calls: time, reapers, the attributor and the journal's reader, faults, and a look at the
// ceilings.
func (r *rivals) keeps(random *rand.Rand, books *books, over *atomic.Bool) {
	reader, read := books.newReader(0), 0
	for !over.Load() {
		r.forward(time.Duration(random.Int64N(1_200_000)) * time.Microsecond)
		switch random.IntN(8) {
		case 0:
			r.redisWire.set([]int32{severed, noAnswer}[random.IntN(2)])
			r.reap(random.IntN(3))
			r.heal()
		case 1:
			r.pgWire.set(noReceipt)
			r.reap(random.IntN(3))
			r.heal()
		case 2, 3, 4:
			r.reap(random.IntN(3))
		case 5:
			books.relay(1 + random.IntN(5))
		default:
			to := min(len(books.entries), read+1+random.IntN(4))
			if err := books.read(reader, books.records(read, to)); err == nil {
				read = to
			}
		}
		if b, err := r.counters(); err == nil && (b.Minute.Used() > 20*dollar || b.Concurrency > 40) {
			r.t.Errorf("at %s: %+v is above a ceiling", r.clock.now(), b)
		}
	}
}

func (r *rivals) reap(replica int) {
	err := r.replicas[replica].svc.reapTenant(context.Background(), tenantAt("rivals"))
	if err != nil && !errors.Is(err, budgetstore.ErrUnavailable) && r.redisWire.mode.Load() == through && r.pgWire.mode.Load() == through {
		r.t.Errorf("reap: %v", err)
	}
}

func (r *rivals) counters() (budgetstore.Budget, error) {
	return r.svc.counters.Budget(context.Background(), tenantAt("rivals"), admit.CalendarAt(r.clock.now(), time.UTC), admit.Limits{})
}

// close lets everything end, and holds the books against Redis and against what callers were told.
func (r *rivals) close(books *books) {
	r.t.Helper()
	r.heal()
	for range 3 {
		r.forward(61 * time.Second)
		for i := range r.replicas {
			r.reap(i)
		}
	}
	for len(books.relay(100)) > 0 {
	}
	r.must(books.read(books.newReader(0), books.records(0, len(books.entries))))
	books.publish()
	net, own, all := map[string]money.Nano{}, money.Nano(0), money.Nano(0)
	for _, e := range books.entries {
		net[fmt.Sprint(e.ReservationID, ":", e.ReservedAt.UnixNano())] += e.Own + e.External
		own, all = own+e.Own, all+e.Own+e.External
	}
	b, err := r.counters()
	r.must(err)
	if b.Day.Own != own || b.Day.Used() != all || b.Day.Held != 0 || b.Concurrency != 0 || b.Expiring != 0 {
		r.t.Errorf("Redis %+v, the books own %d of %d", b, own, all)
	}
	for id, answers := range r.told {
		if len(answers) != 1 {
			r.t.Errorf("%s: settles were told %v", id, answers)
		}
		for told := range answers {
			if want := net[id].USD().String(); told[:len(want)] != want {
				r.t.Errorf("%s costs %s in the books, its settle was told %s", id, want, told)
			}
		}
	}
	for id, cost := range net {
		if r.told[id] == nil && cost != 40*money.Nano(cent) && cost != 0 && books.verdicts["conflict"] == 0 {
			if cost < 10*money.Nano(cent) || cost > 12*money.Nano(cent) { // a settle whose answer was lost
				r.t.Errorf("%s costs %s, and nobody was told", id, cost.USD())
			}
		}
	}
}
