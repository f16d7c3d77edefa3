package instance

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/weir-project/weir/pkg/embedded/part"
)

// A stray is a process of this instance that instance.json does not name as running: its starter was killed before it could
// write it down. It is known by its lock, which lies beside a part's data, and in run/ for a service.

// lockOf is the lock file of a service's copy.
func (d Dir) lockOf(service string) string { return d.file("run", service+".lock") }

// locks are the lock files of this instance, by the name of the process that takes each.
func (d Dir) locks() map[string]string {
	files := map[string]string{}
	for _, name := range partNames() {
		files[name] = part.LockOf(d.Data(name))
	}
	services, _ := filepath.Glob(d.lockOf("*")) // a good pattern has no error
	for _, file := range services {
		files[strings.TrimSuffix(filepath.Base(file), ".lock")] = file
	}
	return files
}

// strays are what ends them, and says so.
func (d Dir) strays(s State, say func(format string, args ...any)) (services, parts []stopper) {
	for name, file := range d.locks() {
		if s.runs(name) || len(part.Holders(file)) == 0 {
			continue
		}
		sig, list := syscall.SIGTERM, &services
		if slices.Contains(partNames(), name) {
			list = &parts
		}
		if name == "postgres" { // which would wait for its clients otherwise
			sig = syscall.SIGINT
		}
		*list = append(*list, func(grace time.Duration) error {
			found, err := part.EndHolders(file, sig, grace)
			for _, p := range found {
				say("%s: pid %d (%s) was started here and never recorded: ended", name, p.PID, p.Kind)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			return nil
		})
	}
	return services, parts
}

// runs reports whether a part or a copy of a service stands there and runs.
func (s State) runs(name string) bool {
	p, _ := s.Part(name)
	v, _ := find(s.Services, name)
	return p.PID > 0 && p.Alive() || v.PID > 0 && v.Alive()
}

// endStrays ends them all.
func (c Config) endStrays(s State) error {
	services, parts := c.Dir.strays(s, c.Say)
	return errors.Join(stopAll(services, serviceGrace), stopAll(parts, partGrace))
}

// saveStarted writes down what p was just started as. A process that nobody would know of is ended again.
func (d Dir) saveStarted(s State, p part.Part) error {
	err := d.Save(s)
	if err == nil {
		return nil
	}
	return errors.Join(err, p.Stop(partGrace))
}
