package part

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
)

// LentPorts is where the ports begin that the system lends to outgoing connections (Linux: net.ipv4.ip_local_port_range).
// A server that listens there may find its port taken when it starts again: even a client that dials the absent server can
// be lent the very port that it dials, is then connected to itself, and bars it.
const LentPorts = 32768

// FreePort gives ports from here on.
const firstFree = 20000

// Unused returns the port itself, or the one that the system picks for 0, if it could be listened on.
func Unused(port int) (int, error) {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return 0, fmt.Errorf("port %d: %w", port, err)
	}
	port = l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		return 0, fmt.Errorf("port %d: %w", port, err)
	}
	return port, nil
}

// FreePort is a port on 127.0.0.1 that nobody listens on, that is never lent, and that is claimed: its server may go away
// and come back as long as this process lives.
func FreePort() (int, error) {
	Tidy(nil)
	const tries = 200
	for range tries {
		port := firstFree + rand.N(LentPorts-firstFree)
		if _, err := Unused(port); err == nil && Claim(port, "", nil) {
			return port, nil
		}
	}
	return 0, errors.New("no free port on 127.0.0.1")
}
