package instance

import (
	"fmt"
	"slices"
)

// copyOf is one copy of a program that is to run.
type copyOf struct {
	program, name string
	port          int // the one it has by default
	grpc          int // the same for gRPC, 0 for none
}

// copies lists what is to run, in the order of Programs.
func (c Config) copies(before []Service) []copyOf {
	var all []copyOf
	for i, program := range Programs() {
		replicas, base, grpc := c.replicas(program, before), portService+10*i, 0
		if program == "admission" {
			base, grpc = portAdmission, portGRPC
		}
		for n := range replicas {
			name := program
			if replicas > 1 {
				name = fmt.Sprintf("%s-%d", program, n+1)
			}
			w := copyOf{program: program, name: name, port: base + n}
			if grpc > 0 {
				w.grpc = grpc + n
			}
			all = append(all, w)
		}
	}
	return all
}

// replicas is how many copies are to run: as asked for, else as many as before.
func (c Config) replicas(program string, before []Service) int {
	if n := c.Replicas[program]; n > 0 {
		return n
	}
	n := 0
	for _, v := range before {
		if v.Program == program {
			n++
		}
	}
	return max(1, n)
}

// upServices ends the copies that are no longer named, and starts those that do not run, whose parts have moved or that run
// another build, on the ports they had before. Whatever happens on the way, what runs stands in instance.json.
func (c Config) upServices(s *State) error {
	wanted := c.copies(s.Services)
	if err := c.retire(s, wanted); err != nil {
		return err
	}
	taken := map[int]bool{}
	for _, program := range Programs() {
		group := slices.DeleteFunc(slices.Clone(wanted), func(w copyOf) bool { return w.program != program })
		held, err := c.stopOutdated(*s, group)
		if err != nil {
			return err
		}
		for _, w := range group {
			old, known := find(s.Services, w.name)
			if known && old.Runs() {
				continue
			}
			port, grpc, err := c.portsOf(old, w, held, taken)
			if err != nil {
				return err
			}
			started, err := c.Dir.startService(c.Bin, w.program, w.name, port, grpc, *s)
			if err != nil {
				return err
			}
			with := *s
			with.setService(started)
			if err := c.Dir.saveStarted(with, started.Part); err != nil {
				return err
			}
			*s = with
		}
	}
	ordered := make([]Service, len(wanted))
	for i, w := range wanted {
		ordered[i], _ = find(s.Services, w.name)
	}
	s.Services = ordered
	return c.Dir.Save(*s)
}

// stopOutdated stops those copies of one program that were told something else than they would be now, or run another build:
// all at once, so that no build meets what another copy of a newer one has just written. It returns the ports that are held
// for them.
func (c Config) stopOutdated(s State, group []copyOf) (held []int, err error) {
	var outdated []stopper
	for _, w := range group {
		old, known := find(s.Services, w.name)
		if !known || !old.Alive() {
			continue
		}
		command := c.Dir.serviceCommand(c.Bin, w.program, w.name, "", s)
		same := old.Settings == settings(command) && (w.grpc == 0 || old.GRPC != "")
		switch build := c.runsThisBuild(old, command.Path); {
		case same && build:
			continue
		case build:
			c.Say("restarting %s: what it was told has changed", w.name)
		default:
			c.Say("restarting %s: it runs another build than %s", w.name, command.Path)
		}
		held = append(held, c.Dir.hold(old)...)
		outdated = append(outdated, old.Part.Stop)
	}
	return held, stopAll(outdated, serviceGrace)
}

// portsOf are the ports of a copy: those it had before, where they are held for it or free.
func (c Config) portsOf(old Service, w copyOf, held []int, taken map[int]bool) (port, grpc int, err error) {
	pick := func(want int) (int, error) {
		if slices.Contains(held, want) && !taken[want] {
			taken[want] = true
			return want, nil
		}
		return c.Dir.freePort(want, taken)
	}
	if port, err = pick(lastPort(old.Address, w.port)); err == nil && w.grpc > 0 {
		grpc, err = pick(lastPort("grpc://"+old.GRPC, w.grpc))
	}
	return port, grpc, err
}

// addresses are where it listens, as URLs.
func (v Service) addresses() []string {
	if v.GRPC == "" {
		return []string{v.Address}
	}
	return []string{v.Address, "grpc://" + v.GRPC}
}

// portsTaken reports whether another process listens where a copy that has ended was to.
func (v Service) portsTaken() bool {
	return slices.ContainsFunc(v.addresses(), func(address string) bool { return portTaken(lastPort(address, 0)) })
}

// retire stops copies that the new number of replicas no longer names.
func (c Config) retire(s *State, wanted []copyOf) error {
	var keep []Service
	for _, old := range s.Services {
		if slices.ContainsFunc(wanted, func(w copyOf) bool { return w.name == old.Name }) {
			keep = append(keep, old)
			continue
		}
		if err := old.Stop(serviceGrace); err != nil {
			return err
		}
	}
	s.Services = keep
	return c.Dir.Save(*s)
}

func find(services []Service, name string) (Service, bool) {
	for _, v := range services {
		if v.Name == name {
			return v, true
		}
	}
	return Service{}, false
}
