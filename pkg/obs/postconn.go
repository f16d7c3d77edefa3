package obs

import (
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// postConn is a connection that brought nothing but plain requests so far.
type postConn struct {
	conn  *net.TCPConn
	posts *posts
	from  string      // the client's address
	used  atomic.Bool // it has brought a request
	until time.Time   // when reading ends, as it was set last
	in    []byte      // what was read of the next request
	reply answer
	out   []byte
}

// run answers requests until one is not plain, or the end.
func (c *postConn) run() {
	for r := c.next(); r != nil; r = c.next() {
		goesOn := c.serve(r)
		c.in = c.in[:0]
		if !goesOn {
			break
		}
	}
	c.posts.mu.Lock()
	delete(c.posts.conns, c)
	c.posts.mu.Unlock()
	if len(c.in) == 0 {
		_ = c.conn.Close()
		return
	}
	c.posts.leave(accepted{&replayed{unwatchedConn{c.conn}, c.in}, nil})
}

// next waits for a plain request. Without one, what came instead is in c.in.
func (c *postConn) next() *http.Request {
	err := c.wait()
	for begun := false; err == nil; err = c.read() {
		r, more := plainRequest(c.in)
		switch {
		case r != nil:
			c.used.Store(true)
			r.RemoteAddr = c.from
			return r
		case !more || len(c.in) == cap(c.in):
			return nil
		case !begun: // the rest of it must come soon
			begun, c.until = true, c.within(c.posts.first)
			_ = c.conn.SetReadDeadline(c.until) // it fails where reading does
		}
	}
	return nil
}

// wait returns when something of a request has come.
func (c *postConn) wait() error {
	lasts := c.posts.idle
	if !c.used.Load() {
		lasts = c.posts.first
	}
	if until := c.within(lasts); !until.Equal(c.until) {
		c.until = until
		_ = c.conn.SetReadDeadline(until) // it fails where reading does
	}
	if c.posts.closing.Load() { // it may have been told to go before the deadline was set
		c.expire()
	}
	return c.read()
}

func (c *postConn) read() error {
	n, err := c.conn.Read(c.in[len(c.in):cap(c.in)])
	c.in = c.in[:len(c.in)+n]
	return err
}

// within is the deadline of what may last so long: up to a beat later.
func (c *postConn) within(d time.Duration) time.Time {
	return c.posts.clock.Load().at.Add(d + beat)
}

// expire ends the wait for a request: at once, or after a moment where none has come yet.
func (c *postConn) expire() {
	if c.used.Load() {
		_ = c.conn.SetReadDeadline(time.Unix(1, 0)) // long ago
		return
	}
	time.AfterFunc(silence, func() {
		c.posts.mu.Lock()
		defer c.posts.mu.Unlock()
		if _, ours := c.posts.conns[c]; ours {
			_ = c.conn.SetReadDeadline(time.Unix(1, 0))
		}
	})
}

// serve answers a request; false if that was the last on this connection.
func (c *postConn) serve(r *http.Request) (goesOn bool) {
	c.reply.reset()
	if !c.handle(r) {
		c.reply.reset()
		c.reply.WriteHeader(http.StatusInternalServerError)
		c.reply.header.Set("Connection", "close")
	}
	if c.posts.closing.Load() {
		c.reply.header.Set("Connection", "close")
	}
	c.out = c.reply.appendTo(kept(c.out), c.posts.clock.Load().date)
	_, err := c.conn.Write(c.out)
	return err == nil && !c.reply.ends()
}

// handle runs the handler. One that panics ends its connection and no other, as with net/http.
func (c *postConn) handle(r *http.Request) (whole bool) {
	defer func() { whole = recover() == nil }()
	c.posts.handler.ServeHTTP(&c.reply, r)
	return true
}

// replayed is a connection of which something was read already.
type replayed struct {
	unwatchedConn
	before []byte
}

func (c *replayed) Read(b []byte) (int, error) {
	if len(c.before) == 0 || len(b) == 1 {
		return c.unwatchedConn.Read(b)
	}
	n := copy(b, c.before)
	c.before = c.before[n:]
	return n, nil
}
