package obs

import (
	"net"
	"sync/atomic"
)

// unwatched is a listener whose connections are not watched while a request is answered.
//
// net/http starts a goroutine for each request that it has read to its end. It waits for a byte, so that the request's
// context ends where the client hangs up instead, and is stopped before the answer is finished: 6 µs of a reservation's 88.
// Handlers here do not end by that context, since what was begun is brought to its end. The goroutine reads a single byte,
// and being told that there was none it goes. What a client sends meanwhile, its next request or its end, is read after the
// answer. Nobody else reads a single byte but a buffer that lacks no more, of a header that comes in pieces, and that asks
// again at once: after some such reads in a row one is answered. Should net/http come to read in another way, the goroutine
// waits again, and no more.
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

// inVain is how many reads of a single byte in a row are told that there was none; bufio gives up after a hundred.
const inVain = 50

type unwatchedConn struct {
	*net.TCPConn
	single atomic.Int32 // reads of a single byte in a row
}

func (c *unwatchedConn) Read(b []byte) (int, error) {
	if len(b) == 1 && c.single.Add(1) <= inVain {
		return 0, nil
	}
	c.single.Store(0)
	return c.TCPConn.Read(b)
}
