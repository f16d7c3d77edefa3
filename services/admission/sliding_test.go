//go:build integration

package admission

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/domain/tenant"
)

// minuteCall is what one admitted call counts, at the instant at which it was reserved (µs).
type minuteCall struct {
	id     string
	at     int64
	amount int64
	open   bool
}

// minute is one limit under random arrivals: a plain list of calls.
type minute struct {
	who           string
	limit         int64
	calls         []*minuteCall
	most, yes, no int64
}

// since sums the calls reserved at or after an instant.
func (m *minute) since(at int64) (sum int64) {
	for _, c := range m.calls {
		if c.at >= at {
			sum += c.amount
		}
	}
	return sum
}

// Goal: whatever the arrivals and whichever replica takes them, no 60 seconds ever hold more than the limit of requests, of
// tokens or of dollars; and nothing is refused that would have fitted, but for what lies between the 60th second and the
// start of its bucket. Method: three tenants, one with each limit alone, random gaps of microseconds to minutes, random
// amounts, settles and releases in between, under one logical clock.
func TestSlidingMinuteOverReplicas(t *testing.T) {
	d := newDesk(t, map[string]tenant.Contract{"acme": contract()})
	replicas := []process{d.process}
	for range 2 {
		p := d.another()
		t.Cleanup(p.stop)
		replicas = append(replicas, p)
	}
	limits := []*minute{{who: "requests", limit: 7, most: 1}, {who: "tokens", limit: 300, most: 90}, {who: "dollars", limit: 400, most: 120}}
	for i, m := range limits {
		k := contract()
		switch i {
		case 0:
			k.Limits.RequestsPerMinute = m.limit
		case 1:
			k.Limits.OutputTokensPerMinute = m.limit
		case 2:
			k.Ceilings.Minute = 4 * dollar // 400 cents
		}
		k.Ceilings.Day, k.Ceilings.Month = 100_000*dollar, 100_000*dollar
		if i < 2 {
			k.Ceilings.Minute = 100_000 * dollar
		}
		d.addTenant(m.who, k, replicas[1:]...)
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	read := d.clock.now()
	for step := range 1500 {
		d.clock.advance(time.Duration([]int64{random.Int64N(300_000), random.Int64N(4_000_000), random.Int64N(4_000_000), random.Int64N(70_000_000)}[min(3, random.IntN(40)/13)]) * time.Microsecond)
		if now := d.clock.now(); now.Sub(read) > time.Second {
			for _, p := range replicas {
				p.compareEpoch()
			}
			read = now
		}
		m, p := limits[random.IntN(len(limits))], replicas[random.IntN(len(replicas))]
		if len(m.calls) > 0 && random.IntN(4) == 0 {
			m.end(d, p, random)
			continue
		}
		m.arrive(d, p, fmt.Sprint("r", step), 1+random.Int64N(m.most))
	}
	for _, m := range limits {
		if m.yes < 30 || m.no < 30 {
			t.Errorf("%s: %d admitted and %d refused: too few to say anything", m.who, m.yes, m.no)
		}
		for _, c := range m.calls { // what was really used, over every minute that ends with a call
			var sum int64
			for _, other := range m.calls {
				if other.at > c.at-60_000_000 && other.at <= c.at {
					sum += other.amount
				}
			}
			if sum > m.limit {
				t.Errorf("%s: %d within the 60 s before %s", m.who, sum, time.UnixMicro(c.at))
			}
		}
	}
}

// arrive reserves, and judges the answer.
func (m *minute) arrive(d *desk, p process, id string, amount int64) {
	d.t.Helper()
	status, out := p.call(d.world, m.who, "POST", "/v1/reservations", object{"reservation_id": id, "provider": "openai", "model": "flat", "lease_seconds": 120,
		"estimate": object{"max_output_tokens": amount}})
	if m.who == "requests" {
		amount = 1
	}
	now := d.clock.us.Load()
	switch status {
	case 201:
		at := reservedAt(d.t, out).UnixMicro()
		m.calls = append(m.calls, &minuteCall{id, at, amount, true})
		m.yes++
		if sum := m.since(at - 60_000_000 + 1); sum > m.limit {
			d.t.Fatalf("%s at %s: %d of %d within 60 s", m.who, time.UnixMicro(at), sum, m.limit)
		}
	case 429:
		m.no++
		if sum := m.since(now/second*second - 60*second); sum+amount <= m.limit {
			d.t.Fatalf("%s at %s: %d and %d fit into %d, but: %v", m.who, time.UnixMicro(now), sum, amount, m.limit, out)
		}
	default:
		d.t.Fatalf("%s: %d %v", m.who, status, out)
	}
}

// end settles an open call below what it held, or releases it: the request stays counted, the rest comes back.
func (m *minute) end(d *desk, p process, random *rand.Rand) {
	d.t.Helper()
	c := m.calls[len(m.calls)-1-random.IntN(min(6, len(m.calls)))]
	if !c.open {
		return
	}
	c.open = false
	what, body, used := "release", object{}, int64(0)
	if random.IntN(3) > 0 {
		used = random.Int64N(c.amount + 1)
		what, body = "settle", object{"meters": object{"output_tokens": used}}
	}
	status, out := p.call(d.world, m.who, "POST", "/v1/reservations/"+c.id+"/"+what, body)
	d.want(what, status, out, 200)
	if m.who != "requests" {
		c.amount = used
	}
}
