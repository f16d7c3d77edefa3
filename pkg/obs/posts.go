package obs

import (
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// posts is a listener that answers plain requests itself, and leaves each connection that brings another one to whoever
// accepts from it: net/http, which has that connection for good then, with what was read of it.
//
// net/http takes 12 µs more for a request, of the 100 that a settle takes in admission: a goroutine that waits for the client to
// hang up (see unwatched), two contexts, four deadlines, and headers of any kind in and out (ADR 0016). A plain request is here to
// its end when it is looked at, and its answer is one write.
//
// What handlers miss: r.Context has no server in it, and an answer cannot be flushed, hijacked or given a deadline.
// Bounds: plainBytes for a request, and as much and twice keepBytes of memory for each connection; in time what net/http has for a
// connection without a request, and first for the rest of one.
type posts struct {
	net.Listener
	handler     http.Handler
	first, idle time.Duration // for the first request of a connection, and for each further one

	clock   atomic.Pointer[instant]
	left    chan accepted // for net/http
	closed  chan struct{}
	closing atomic.Bool
	mu      sync.Mutex
	conns   map[*postConn]struct{} // that are not left
	running sync.WaitGroup
}

const (
	// plainBytes is how long a plain request may be, head and body, in bytes.
	plainBytes = 8 << 10
	// beat is how exact the clock of connections is: deadlines are set anew, and dates written anew, no more often.
	beat = time.Second
)

// instant is a reading of the clock, and how an answer says it.
type instant struct {
	at   time.Time
	date string
}

func newInstant(at time.Time) *instant { return &instant{at, at.UTC().Format(http.TimeFormat)} }

// keepTime reads the machine's clock every beat, whatever clock a service decides by: connections live by it.
func (p *posts) keepTime() {
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	for {
		select {
		case at := <-ticker.C:
			p.clock.Store(newInstant(at))
		case <-p.closed:
			return
		}
	}
}

// accepted is what Accept gives.
type accepted struct {
	conn net.Conn
	err  error
}

func newPosts(l net.Listener, h http.Handler, first, idle time.Duration) *posts {
	p := &posts{Listener: l, handler: h, first: first, idle: idle, left: make(chan accepted), closed: make(chan struct{}), conns: map[*postConn]struct{}{}}
	p.clock.Store(newInstant(<-time.After(0)))
	p.running.Go(p.keepTime)
	p.running.Go(p.accept)
	return p
}

// accept takes connections until the end. Those with TLS, and errors, are net/http's.
func (p *posts) accept() {
	for {
		c, err := p.Listener.Accept()
		tcp, ok := c.(*net.TCPConn)
		if err == nil && ok {
			conn := &postConn{conn: tcp, posts: p, from: tcp.RemoteAddr().String(), in: make([]byte, 0, plainBytes)}
			p.mu.Lock()
			p.conns[conn] = struct{}{}
			p.mu.Unlock()
			p.running.Go(conn.run)
		} else if !p.leave(accepted{c, err}) {
			return
		}
	}
}

// leave gives something to net/http; false if that takes nothing any more.
func (p *posts) leave(a accepted) bool {
	select {
	case p.left <- a:
		return true
	case <-p.closed:
		if a.conn != nil {
			_ = a.conn.Close() // it brought nothing that was begun
		}
		return false
	}
}

func (p *posts) Accept() (net.Conn, error) {
	select {
	case a := <-p.left:
		return a.conn, a.err
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close takes no further connection, and lets those that wait for a request go; net/http calls it first when it ends.
func (p *posts) Close() error {
	if p.closing.Swap(true) {
		return nil
	}
	close(p.closed)
	err := p.Listener.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.expire()
	}
	return err
}

// errInFlight: requests were not answered within the grace.
var errInFlight = errors.New("requests are still in flight")

// wait returns when the requests in flight are answered. After grace it closes their connections.
func (p *posts) wait(grace time.Duration) error {
	ended := make(chan struct{})
	go func() { p.running.Wait(); close(ended) }()
	select {
	case <-ended:
		return nil
	case <-time.After(grace):
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.conn.Close()
	}
	return errInFlight
}
