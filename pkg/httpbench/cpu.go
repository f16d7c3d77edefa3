package httpbench

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// ticksPerSecond is the unit of /proc/PID/stat, the same on every Linux that Go runs on.
const ticksPerSecond = 100

// cpuTime is what a process has used so far; zero where that cannot be read. It is the one figure that a busy machine
// changes little.
func cpuTime(pid int) time.Duration {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	_, rest, ok := strings.Cut(string(text), ") ") // the name may hold spaces
	fields := strings.Fields(rest)
	if !ok || len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * time.Second / ticksPerSecond
}

// say writes a line about one slot for whoever tunes: rate, p99, and the processor time per request of the server and of
// the load.
func (w *world) say(what string, l loaded) {
	if w.cfg.Log != nil {
		_, _ = fmt.Fprintf(w.cfg.Log, "%-8s %7.0f/s  p50 %6.2f ms  p99 %6.2f ms  server %5.0f µs  load %5.0f µs each  %d refused\n",
			what, l.rate, l.p50, l.p99, l.serverCPU, l.loadCPU, l.refused)
	}
}
