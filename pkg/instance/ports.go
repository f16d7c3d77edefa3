package instance

import (
	"fmt"
	"path/filepath"

	"github.com/weir-project/weir/pkg/embedded/part"
)

// Default ports. Services count up from theirs; a taken one is replaced by a free one, and `weir env` tells which.
const (
	portKafka      = 19092
	portRedis      = 16379
	portPostgres   = 15432
	portClickHouse = 18123
	portAdmission  = 18080 // admission-1 is 18080, admission-2 18081, …
	portService    = 18100 // the others, in the order of Programs
	portGRPC       = 18200 // admission-1's gRPC is 18200, admission-2's 18201, …
)

// portStep is the step to a neighbour of a taken port.
const portStep = 1000

// freePort is want if nothing listens there, taken does not hold it and no other instance needs it, else the first such one
// of its neighbours that the system never lends, else one that the system picks.
func (d Dir) freePort(want int, taken map[int]bool) (int, error) {
	candidates := []int{want}
	for port := want + portStep; port < part.LentPorts; port += portStep {
		candidates = append(candidates, port)
	}
	for _, port := range append(candidates, 0, 0, 0) {
		got, err := part.Unused(port)
		if err == nil && !taken[got] && d.claim(got) {
			taken[got] = true
			return got, nil
		}
	}
	return 0, fmt.Errorf("no free port on 127.0.0.1 (wanted %d)", want)
}

// claim keeps a port from every other `weir up`: until this process ends, and then as long as this instance needs it.
func (d Dir) claim(port int) bool { return part.Claim(port, d.owner(), needed) }

// hold claims the ports of a service that listens there still, before it is stopped: whatever other instances remember, they
// are its own, and nobody may look for them in the moment in which nothing listens. It returns those that it could claim.
func (d Dir) hold(v Service) []int {
	var held []int
	for _, address := range v.addresses() {
		if port := lastPort(address, 0); port > 0 && part.Claim(port, d.owner(), nil) {
			held = append(held, port)
		}
	}
	return held
}

// owner is how marks call this instance.
func (d Dir) owner() string {
	own, err := filepath.Abs(string(d))
	if err != nil {
		return "" // claimed for the life of this process
	}
	return own
}

func needed(owner string, port int) bool { return Dir(owner).needs(port) }

// needs reports whether an instance of which something runs remembers a port: its own part or service may just have been
// killed, and finds its port again at the next `weir up`. One that was taken down leaves its ports to others.
func (d Dir) needs(port int) bool {
	s, err := d.Load()
	if err != nil {
		return false
	}
	runs, has := false, false
	for _, p := range s.Parts {
		if p.Ours() {
			runs = runs || p.Alive()
			has = has || lastPort(p.Address, 0) == port
		}
	}
	for _, v := range s.Services {
		runs = runs || v.Alive()
		for _, address := range v.addresses() {
			has = has || lastPort(address, 0) == port
		}
	}
	return runs && has
}

// portTaken reports whether something listens on a port of 127.0.0.1.
func portTaken(port int) bool {
	_, err := part.Unused(port)
	return err != nil
}
