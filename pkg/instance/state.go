// Package instance runs one Weir on this machine: it starts parts and services, remembers them, finds them again and
// stops them. It is what `weir up`, `down` and `status` do.
//
// It owns the folder D (default .weir/): instance.json, secrets/, log/, run/ and data/. It does not own how a part works
// (pkg/embedded) or what a service does.
//
// Invariants: everything of one instance lies under its folder, so that two can run side by side; how a process is
// started, remembered and signalled is pkg/embedded/part's, for parts and services alike.
package instance

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/weir-project/weir/pkg/embedded/part"
)

// Part is one of kafka, redis, postgres, clickhouse. A part of the user's own has Kind "external" and no process.
type Part struct {
	Name string `json:"name"`
	part.Part
}

// KindExternal marks a part that is the user's own: only its address is known.
const KindExternal = "external"

// Ours reports whether the part is a process of this instance.
func (p Part) Ours() bool { return p.Kind != KindExternal }

// Service is one process of a service, e.g. admission-2. Its address is http://host:port.
type Service struct {
	Name    string `json:"name"`
	Program string `json:"program"`
	// Settings identifies what it was told at its start; a part that moved means another value, and a restart.
	Settings string `json:"settings"`
	// GRPC is where admission listens for gRPC, host:port; empty for the others.
	GRPC string `json:"grpc,omitempty"`
	part.Part
}

// State is what instance.json holds.
type State struct {
	Version  int       `json:"version"`
	Parts    []Part    `json:"parts"`
	Services []Service `json:"services"`
}

// Part returns the part of that name.
func (s State) Part(name string) (Part, bool) {
	for _, p := range s.Parts {
		if p.Name == name {
			return p, true
		}
	}
	return Part{}, false
}

// Service returns the first running copy of a program, e.g. "admission".
func (s State) Service(program string) (Service, bool) {
	for _, v := range s.Services {
		if v.Program == program {
			return v, true
		}
	}
	return Service{}, false
}

// setPart puts a part in the place of the one of its name, in the order of partNames.
func (s *State) setPart(p Part) {
	s.Parts = slices.DeleteFunc(slices.Clone(s.Parts), func(o Part) bool { return o.Name == p.Name })
	s.Parts = append(s.Parts, p)
	slices.SortFunc(s.Parts, func(a, b Part) int {
		return cmp.Compare(slices.Index(partNames(), a.Name), slices.Index(partNames(), b.Name))
	})
}

// setService puts a copy in the place of the one of its name.
func (s *State) setService(v Service) {
	s.Services = slices.DeleteFunc(slices.Clone(s.Services), func(o Service) bool { return o.Name == v.Name })
	s.Services = append(s.Services, v)
}

// ErrNone says that there is no instance in the folder.
var ErrNone = errors.New("run `weir up` first, or give its folder by --dir")

// Dir is an instance's folder.
type Dir string

func (d Dir) file(parts ...string) string {
	return filepath.Join(append([]string{string(d)}, parts...)...)
}

// Secret is the path of a secret file of this instance, e.g. Secret("hmac.key").
func (d Dir) Secret(name string) string { return d.file("secrets", name) }

// Log is the path of a process' log file.
func (d Dir) Log(name string) string { return d.file("log", name+".log") }

// Data is the folder of a part's data.
func (d Dir) Data(part string) string { return d.file("data", part) }

// Load reads instance.json; ErrNone if there is none.
func (d Dir) Load() (State, error) {
	b, err := os.ReadFile(d.file("instance.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return State{}, fmt.Errorf("no instance in %s: %w", d, ErrNone)
	}
	if err != nil {
		return State{}, fmt.Errorf("read instance: %w", err)
	}
	var s State
	if err := json.Unmarshal(b, &s); err != nil {
		return State{}, fmt.Errorf("read instance %s: %w", d.file("instance.json"), err)
	}
	return s, nil
}

// Save replaces instance.json in one step: a crash leaves the old one or the new one.
func (d Dir) Save(s State) error {
	s.Version = 1
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("save instance: %w", err)
	}
	if err := replaceFile(d.file("instance.json"), append(b, '\n')); err != nil {
		return fmt.Errorf("save instance: %w", err)
	}
	return nil
}

// replaceFile writes a file that only its owner can read, in one step.
func replaceFile(path string, content []byte) error {
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, content, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

// Lock keeps a second `up` or `down` on the same folder out until the returned function is called.
func (d Dir) Lock() (unlock func(), err error) {
	if err := os.MkdirAll(string(d), 0o755); err != nil {
		return nil, fmt.Errorf("instance folder: %w", err)
	}
	f, err := os.OpenFile(d.file("lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("instance lock: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("another `weir up` or `weir down` is at work on %s", d)
	}
	return func() { _ = f.Close() }, nil
}
