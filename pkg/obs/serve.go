package obs

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// silence is how long, after the end was asked for, a connection may still bring its first request. A client that opened
// more connections than it had requests leaves some on which nothing ever comes, and net/http waits 5 s for each.
const silence = 100 * time.Millisecond

// Serve answers on the listener with bounded header times until ctx ends, then takes no new requests and lets those in
// flight finish for up to grace. Connections that have sent nothing 0.1 s after ctx ended are closed. Without TLS the context
// of a request does not end where its client hangs up (see unwatched).
func Serve(ctx context.Context, l net.Listener, h http.Handler, grace time.Duration) error {
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10}
	return Run(ctx, unwatched{l}, srv, grace)
}

// Run is Serve for a server with limits of its own, whose requests' contexts end where the client hangs up. It owns the
// server's ConnState.
func Run(ctx context.Context, l net.Listener, srv *http.Server, grace time.Duration) error {
	var silent unused
	srv.ConnState = silent.note
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	select {
	case err := <-ended:
		return fmt.Errorf("http server on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	defer time.AfterFunc(min(silence, grace/2), silent.close).Stop()
	graceCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	if err := srv.Shutdown(graceCtx); err != nil {
		return errors.Join(fmt.Errorf("http server on %s: %w", l.Addr(), err), srv.Close())
	}
	return nil
}

// unused holds the connections that have sent nothing yet: at most as many as are open. A sync.Map, since every request
// asks it to forget its connection, and all but the first find nothing, without a lock.
type unused struct{ conns sync.Map }

func (u *unused) note(c net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		u.conns.Store(c, nil)
	case http.StateActive, http.StateClosed, http.StateHijacked:
		u.conns.Delete(c)
	}
}

func (u *unused) close() {
	u.conns.Range(func(c, _ any) bool {
		_ = c.(net.Conn).Close() // it brought nothing that could be lost
		return true
	})
}
