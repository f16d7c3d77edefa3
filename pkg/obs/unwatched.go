package obs

import "net"

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
		return unwatchedConn{tcp}, err
	}
	return c, err
}

type unwatchedConn struct{ *net.TCPConn }

func (c unwatchedConn) Read(b []byte) (int, error) {
	if len(b) == 1 {
		return 0, nil
	}
	return c.TCPConn.Read(b)
}
