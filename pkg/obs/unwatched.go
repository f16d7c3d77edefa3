package obs

import (
	"errors"
	"net"
	"sync"
	"time"
)

// unwatched is a listener whose connections are not watched while a request is answered.
//
// net/http starts a goroutine for each request that it has read to its end. It waits for a byte, so that the request's
// context ends where the client hangs up instead, and is stopped before the answer is finished: 6 µs of a reservation's 88.
// Handlers here do not end by that context, since what was begun is brought to its end. The goroutine is the only one to
// read a single byte, and being told that there was none it goes. What a client sends meanwhile, its next request or its
// end, is read after the answer. Should net/http come to read in another way, the goroutine waits again, and no more.
//
// Connections with TLS are left as they are: net/http knows them by their type.
type unwatched struct{ net.Listener }

func (u unwatched) Accept() (net.Conn, error) {
	c, err := u.Listener.Accept()
	if tcp, ok := c.(*net.TCPConn); ok {
		return &unwatchedConn{TCPConn: tcp}, err
	}
	return c, err
}

// unwatchedConn also sets a deadline of reading only when it is read from: net/http sets five for a request, one of which
// comes to anything. The others were 1 µs.
type unwatchedConn struct {
	*net.TCPConn
	mu          sync.Mutex
	wanted, set time.Time
	reading     bool
}

func (c *unwatchedConn) Read(b []byte) (int, error) {
	if len(b) == 1 {
		return 0, nil
	}
	if err := c.begin(); err != nil {
		return 0, err
	}
	n, err := c.TCPConn.Read(b)
	c.mu.Lock()
	c.reading = false
	c.mu.Unlock()
	return n, err
}

func (c *unwatchedConn) begin() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reading = true
	return c.setWanted()
}

// setWanted sets the deadline that was asked for last. c.mu is held.
func (c *unwatchedConn) setWanted() error {
	if c.set == c.wanted {
		return nil
	}
	c.set = c.wanted
	return c.TCPConn.SetReadDeadline(c.wanted)
}

// SetReadDeadline bounds the reads to come, and one that waits.
func (c *unwatchedConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wanted = t
	if c.reading {
		return c.setWanted()
	}
	return nil
}

func (c *unwatchedConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}
