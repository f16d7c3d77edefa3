package instance

import (
	"fmt"
	"net"
)

// Default ports. Services count up from theirs; a taken one is replaced by a free one, and `weir env` tells which.
const (
	PortKafka      = 19092
	PortRedis      = 16379
	PortPostgres   = 15432
	PortClickHouse = 18123
	PortAdmission  = 18080 // admission-1 is 18080, admission-2 18081, …
	PortService    = 18100 // the others, in the order of Programs
)

// freePort is want if nothing listens there and taken does not hold it, else one that the system picks.
func freePort(want int, taken map[int]bool) (int, error) {
	for _, port := range []int{want, 0} {
		for range 10 {
			l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
			if err != nil {
				break
			}
			got := l.Addr().(*net.TCPAddr).Port
			if err := l.Close(); err != nil {
				return 0, fmt.Errorf("free port: %w", err)
			}
			if !taken[got] {
				taken[got] = true
				return got, nil
			}
		}
	}
	return 0, fmt.Errorf("no free port on 127.0.0.1 (wanted %d)", want)
}

// portTaken reports whether something listens on a port of 127.0.0.1.
func portTaken(port int) bool {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return true
	}
	_ = l.Close() // it was only a question
	return false
}
