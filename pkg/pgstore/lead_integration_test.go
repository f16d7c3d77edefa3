//go:build integration

package pgstore_test

import (
	"context"
	"errors"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/pgstore"
)

// Goal: a leader whose server vanished without a word learns in seconds that it leads no more, although its caller would
// wait for ever. Method: a proxy that stops to pass anything on.
func TestLeadOfAVanishedServer(t *testing.T) {
	f := open(t)
	address, vanish := vanishing(t, f.address)
	s, err := pgstore.Open(t.Context(), address)
	f.must(err)
	defer s.Close()
	lead, err := s.TryLead(t.Context())
	f.must(err)
	if lead == nil {
		t.Fatal("nobody leads")
	}
	f.must(lead.Check(t.Context()))
	vanish()
	told := make(chan error, 1)
	go func() { told <- lead.Check(context.WithoutCancel(t.Context())) }()
	select {
	case err := <-told:
		if err == nil {
			t.Error("it still leads")
		}
	case <-time.After(patience):
		t.Error("it waits")
	}
}

// Goal: one changes tenants at a time; who waits is told when it was for long enough, and has the lead when it is given up.
func TestLeadTenants(t *testing.T) {
	f := open(t)
	first, err := f.LeadTenants(t.Context(), time.Minute)
	f.must(err)
	if _, err := f.LeadTenants(t.Context(), time.Millisecond); !errors.Is(err, pgstore.ErrLed) {
		t.Errorf("a second one: %v", err)
	}
	recovery, err := f.TryLead(t.Context())
	f.must(err)
	if recovery == nil {
		t.Error("a recovery waits for a change of tenants")
	} else {
		f.must(recovery.Close(t.Context()))
	}
	second := make(chan error, 1)
	go func() {
		l, err := f.LeadTenants(t.Context(), time.Minute)
		if err == nil {
			err = errors.Join(l.Check(t.Context()), l.Close(t.Context()))
		}
		second <- err
	}()
	f.must(first.Check(t.Context()))
	f.must(first.Close(t.Context()))
	f.must(<-second)
}

// vanishing is a postgres:// address behind a proxy; once vanish was called, it takes everything and gives nothing.
func vanishing(t *testing.T, address string) (through string, vanish func()) {
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	server := u.Host
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.RWMutex
	gone := false
	pass := func(to, from net.Conn) {
		buffer := make([]byte, 1<<14)
		for {
			n, err := from.Read(buffer)
			mu.RLock()
			drop := gone
			mu.RUnlock()
			if drop && err == nil {
				continue
			}
			if err == nil {
				_, err = to.Write(buffer[:n])
			}
			if err != nil {
				_ = to.Close()
				return
			}
		}
	}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			db, err := net.Dial("tcp", server)
			if err != nil {
				_ = client.Close()
				return
			}
			go pass(db, client)
			go pass(client, db)
		}
	}()
	t.Cleanup(func() { _ = l.Close() })
	u.Host = l.Addr().String()
	return u.String(), func() { mu.Lock(); gone = true; mu.Unlock() }
}
