//go:build integration

package budgetstore

import (
	"bytes"
	"io"
	"net"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/weir-project/weir/pkg/testkit"
)

// moving is an address that leads to one Redis until that has said which process it is, and to another one from then on.
func moving(t *testing.T, from, to string) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	var moved atomic.Bool
	pass := func(near net.Conn) {
		defer near.Close()
		host := from
		if moved.Load() {
			host = to
		}
		far, err := net.Dial("tcp", host)
		if err != nil {
			return
		}
		defer far.Close()
		go func() { _, _ = io.Copy(far, near); _ = far.Close() }()
		buf := make([]byte, 64<<10)
		for {
			n, err := far.Read(buf)
			if err != nil {
				return
			}
			said := host == from && bytes.Contains(buf[:n], []byte("run_id:"))
			if said {
				moved.Store(true)
			}
			if _, err := near.Write(buf[:n]); err != nil || said {
				return
			}
		}
	}
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			go pass(near)
		}
	}()
	return l.Addr().String()
}

// Goal (I2): what Inspect says of a master is of one process. Else the run id of one that has gone beside the replication id of the
// one in its place look like a Redis that is unbroken and drew a new id, which is served from, whatever it has lost. Method: the
// address leads to another server as soon as the first one has told its run id.
func TestStandingIsOfOneProcess(t *testing.T) {
	before, after := testkit.Redis(t), testkit.Redis(t)
	inspect := func(address string) Standing {
		t.Helper()
		s, err := Open(t.Context(), address+"?read_timeout=1m", Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		now, err := s.Inspect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return now
	}
	one, other := inspect(before), inspect(after)
	got := inspect("redis://" + moving(t, hostOf(t, before), hostOf(t, after)) + "/0")
	if got.Runs[0] == one.Runs[0] && got.ReplicationIDs[0] == one.ReplicationIDs[0] || got.Runs[0] == other.Runs[0] && got.ReplicationIDs[0] == other.ReplicationIDs[0] {
		return
	}
	t.Errorf("%+v is of two processes, %+v and %+v", got, one, other)
}

func hostOf(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}
