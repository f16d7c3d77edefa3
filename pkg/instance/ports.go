package instance

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
)

// Default ports. Services count up from theirs; a taken one is replaced by a free one, and `weir env` tells which.
const (
	PortKafka      = 19092
	PortRedis      = 16379
	PortPostgres   = 15432
	PortClickHouse = 18123
	PortAdmission  = 18080 // admission-1 is 18080, admission-2 18081, …
	PortService    = 18100 // the others, in the order of Programs
	PortGRPC       = 18200 // admission-1's gRPC is 18200, admission-2's 18201, …
)

// The steps to a neighbour of a taken port, and the end of the ports that the system never lends to an outgoing
// connection (Linux: net.ipv4.ip_local_port_range): a port from beyond it may be taken when its owner starts again.
const (
	portStep  = 1000
	lentPorts = 32768
)

// freePort is want if nothing listens there and taken does not hold it, else the first free one of its neighbours, else
// one that the system picks.
func freePort(want int, taken map[int]bool) (int, error) {
	candidates := []int{want}
	for port := want + portStep; port < lentPorts; port += portStep {
		candidates = append(candidates, port)
	}
	for _, port := range append(candidates, 0, 0, 0) {
		got, err := listenOnce(port)
		if err == nil && !taken[got] && claimed(got) {
			taken[got] = true
			return got, nil
		}
	}
	return 0, fmt.Errorf("no free port on 127.0.0.1 (wanted %d)", want)
}

// listenOnce is the port itself, or the one that the system picks for 0, if it could be listened on.
func listenOnce(port int) (int, error) {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return 0, fmt.Errorf("port %d: %w", port, err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// claimed keeps a port from every other `weir up` until this process ends: between the choice of a port and the moment
// its part listens, a second instance could take it, and would then answer the first one's questions. Where the mark
// cannot be made, the port is taken as it is.
func claimed(port int) bool {
	mark := filepath.Join(os.TempDir(), fmt.Sprintf("weir-port-%d", port))
	// A bare descriptor: it is meant to stay open, and must not be closed by a finaliser.
	fd, err := syscall.Open(mark, syscall.O_CREAT|syscall.O_RDWR|syscall.O_CLOEXEC, 0o666)
	if err != nil {
		return true
	}
	if err := syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = syscall.Close(fd)
		return false
	}
	return true
}

// portTaken reports whether something listens on a port of 127.0.0.1.
func portTaken(port int) bool {
	_, err := listenOnce(port)
	return err != nil
}
