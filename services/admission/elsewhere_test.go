//go:build integration

package admission

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/embedded/part"
	"github.com/weir-project/weir/pkg/testkit"
)

// name is an address that can be made to lead elsewhere, as a DNS name can, or a Sentinel.
type name struct {
	w        *world
	listener net.Listener
	mu       sync.Mutex
	to       string
	open     []net.Conn
}

func newName(w *world, to string) *name {
	w.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	w.must(err)
	n := &name{w: w, listener: l, to: hostIn(to)}
	w.t.Cleanup(func() { _ = l.Close(); n.lead(to, true) })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go n.pass(c)
		}
	}()
	return n
}

func hostIn(url string) string { return strings.TrimSuffix(strings.TrimPrefix(url, "redis://"), "/0") }

func (n *name) url() string { return "redis://" + n.listener.Addr().String() + "/0" }

func (n *name) pass(c net.Conn) {
	n.mu.Lock()
	to := n.to
	n.mu.Unlock()
	server, err := net.Dial("tcp", to)
	if err != nil {
		_ = c.Close()
		return
	}
	n.mu.Lock()
	led := n.to != to // meanwhile, and who led it has ended what was open
	if !led {
		n.open = append(n.open, c, server)
	}
	n.mu.Unlock()
	if led {
		_, _ = c.Close(), server.Close()
		return
	}
	go func() { _, _ = io.Copy(server, c); _ = server.Close() }()
	_, _ = io.Copy(c, server)
	_ = c.Close()
}

// lead makes new connections go elsewhere; cut ends the old ones.
func (n *name) lead(to string, cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.to = hostIn(to)
	if cut {
		for _, c := range n.open {
			_ = c.Close()
		}
		n.open = nil
	}
}

func byName(n *name) func(*Config) {
	return func(c *Config) { c.Redis, c.connectionLasts = n.url()+"?read_timeout=1m", 4*time.Second }
}

// peersLast makes what replicas say of themselves last for a minute longer: a machine that stands still for some seconds must not
// make one of them look gone.
func (w *world) peersLast() {
	w.t.Helper()
	w.exec(`CREATE FUNCTION later() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.at := NEW.at + interval '1 minute'; RETURN NEW; END $$`)
	w.exec("CREATE TRIGGER later BEFORE INSERT OR UPDATE ON admission_replicas FOR EACH ROW EXECUTE FUNCTION later()")
}

// noPeers takes that back: who says nothing from now on is gone.
func (w *world) noPeers() {
	w.t.Helper()
	w.exec("DROP TRIGGER later ON admission_replicas")
	w.exec("DELETE FROM admission_replicas")
}

func (r *replica) contradicted(by string) float64 {
	return r.metric("weir_recovery_contradicted_total", by)
}

// serves fails unless this replica admits.
func (r *replica) serves(id string) {
	r.w.t.Helper()
	status, out := r.reserve("acme", id, 1)
	r.w.want("the replica that sees the right Redis", status, out, 201)
}

// Goal: a replica that is led to another Redis than its peers refuses, and does no harm: it raises no epoch, its peers go on
// serving, and it serves again when it is led back. Methods: an empty server, and one with a copy of what Redis had.
func TestLedElsewhere(t *testing.T) {
	for kind, other := range map[string]func(*world) *part.Part{
		"empty": func(w *world) *part.Part { return testkit.RedisServer(w.t, part.Config{}) },
		"a copy": func(w *world) *part.Part {
			dir := w.t.TempDir()
			w.must(os.CopyFS(filepath.Join(dir, "appendonlydir"), os.DirFS(filepath.Join(w.redisDir, "appendonlydir"))))
			return testkit.RedisServer(w.t, part.Config{Dir: dir})
		},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, one(contract()))
			at := newName(w, w.redis.Address)
			w.peersLast()
			right, led := w.start(), w.start(byName(at))
			led.serves("r1")
			elsewhere := other(w)
			at.lead(elsewhere.Address, true)
			asked := 0
			w.eventually("it refuses, and is contradicted", func() error {
				asked++
				right.serves(fmt.Sprint("during", asked))
				status, out := led.reserve("acme", fmt.Sprint("no", asked), 1)
				if status == 201 || led.contradicted("replicas") < 5 {
					return fmt.Errorf("%d %v, contradicted %v times", status, out, led.contradicted("replicas"))
				}
				return nil
			})
			_, out, _ := led.do("GET", "/readyz", "", nil)
			why, _ := out["not_ready"].(object)
			if !strings.Contains(fmt.Sprint(why["epoch"]), "another Redis than the others") {
				t.Errorf("it does not say why: %v", out)
			}
			at.lead(w.redis.Address, true)
			w.eventually("it serves again", func() error {
				if status, out := led.reserve("acme", "back", 1); status != 201 && status != 200 { // the first answer may have come too late
					return fmt.Errorf("%d %v", status, out)
				}
				return nil
			})
			right.serves("after")
			if row := w.epochNow(); row.Epoch != 4711 {
				t.Errorf("an epoch was raised: %+v", row)
			}
		})
	}
}

// Goal: an old connection that leads to another Redis than the address does costs no recovery, even where no other replica
// is left to say so.
func TestOldConnectionElsewhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t, one(contract()))
	at := newName(w, w.redis.Address)
	w.peersLast()
	// One connection: a second one would be made to wherever the name leads when two ask at once, and be used from then on.
	other, r := w.start(), w.start(byName(at), func(c *Config) { c.Redis, c.connectionLasts = c.Redis+"&pool_size=1", time.Hour })
	at.lead(testkit.RedisServer(t, part.Config{}).Address, true)
	w.eventually("it watches another Redis", func() error {
		if r.contradicted("replicas") == 0 {
			return errors.New("not contradicted")
		}
		return nil
	})
	at.lead(w.redis.Address, false)
	other.stop()
	w.noPeers()
	w.eventually("a new connection knows better", func() error {
		if r.contradicted("connection") < 3 {
			return errors.New("not contradicted")
		}
		return nil
	})
	if row := w.epochNow(); row.Epoch != 4711 {
		t.Errorf("an epoch was raised: %+v", row)
	}
}

// Goal: where the address leads to a new server for good, and one replica still has connections to the old one, both come
// to the new one by themselves, with one recovery.
func TestMovedForGood(t *testing.T) {
	t.Parallel()
	w := newWorld(t, one(contract()))
	w.pipeline()
	moved, old := newName(w, w.redis.Address), newName(w, w.redis.Address)
	briefly := func(c *Config) { c.MaxLease, c.Deadline = 5*time.Second, 3*time.Second } // longer than old connections last, as leases do
	a, b := w.start(briefly, byName(moved)), w.start(briefly, byName(old))
	a.admitted("acme", "r1", 30)
	b.settled("acme", "r1", object{"meters": object{"output_tokens": 20}})
	w.redis = testkit.RedisServer(t, part.Config{})
	old.lead(w.redis.Address, false) // its connections stay
	moved.lead(w.redis.Address, true)
	w.eventually("the recovery in the new one", func() error {
		if row := w.epochNow(); row.Epoch != 4712 || row.Recovering {
			return fmt.Errorf("%+v", row)
		}
		return nil
	})
	w.recovers(a, "acme", "after-a")
	w.recovers(b, "acme", "after-b")
	w.exact(b, "acme", "0.2", "0", "0")
	if row := w.epochNow(); row.Epoch != 4712 {
		t.Errorf("more than one recovery: %+v", row)
	}
}
