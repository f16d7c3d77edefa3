package instance

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"sync"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/config"
)

// PartStatus is one part as `weir status --json` shows it; PID is nil for a part that is not ours.
type PartStatus struct {
	Name    string `json:"name"`
	Kind    string `json:"kind"`
	State   string `json:"state"` // running, not answering, stopped, external
	PID     *int   `json:"pid"`
	Address string `json:"address"` // without secrets
}

// ServiceStatus is one process of a service.
type ServiceStatus struct {
	Name    string `json:"name"`
	State   string `json:"state"` // ready, not ready, stopped
	PID     *int   `json:"pid"`
	Address string `json:"address"`
	GRPC    string `json:"grpc,omitempty"` // host:port, of admission
	Reason  string `json:"reason,omitempty"`
}

// Status is the whole instance.
type Status struct {
	Services []ServiceStatus `json:"services"`
	Parts    []PartStatus    `json:"parts"`
}

// Healthy reports whether every part runs and every service is ready.
func (s Status) Healthy() bool {
	if len(s.Parts) < len(partNames()) || len(s.Services) < len(Programs()) {
		return false // `weir up` did not get that far
	}
	for _, p := range s.Parts {
		if p.State == "stopped" || p.State == "not answering" {
			return false
		}
	}
	for _, v := range s.Services {
		if v.State != "ready" {
			return false
		}
	}
	return true
}

// Status looks at every process and asks every service.
func (d Dir) Status(ctx context.Context) (Status, error) {
	s, err := d.Load()
	if err != nil {
		return Status{}, err
	}
	out := Status{Parts: make([]PartStatus, len(s.Parts)), Services: make([]ServiceStatus, len(s.Services))}
	var asking sync.WaitGroup // side by side: a hung one takes two seconds
	for i, p := range s.Parts {
		asking.Go(func() { out.Parts[i] = p.status(ctx) })
	}
	for i, v := range s.Services {
		asking.Go(func() { out.Services[i] = v.status(ctx) })
	}
	asking.Wait()
	return out, nil
}

func (v Service) status(ctx context.Context) ServiceStatus {
	st := ServiceStatus{Name: v.Name, State: "stopped", Address: v.Address, GRPC: v.GRPC}
	if !v.Alive() {
		return st
	}
	st.State, st.PID = "ready", &v.PID
	if err := v.Readiness(ctx); err != nil {
		st.State, st.Reason = "not ready", err.Error()
	}
	return st
}

// status asks the part itself; one of the user's own is only named.
func (p Part) status(ctx context.Context) PartStatus {
	st := PartStatus{Name: p.Name, Kind: p.Kind, State: "external", Address: config.MaskURL(p.Address)}
	switch {
	case !p.Ours():
	case !p.Alive():
		st.State = "stopped"
	default:
		st.State, st.PID = "running", &p.PID
		if err := p.probe(ctx); err != nil {
			st.State = "not answering"
		}
	}
	return st
}

// Env is what a shell needs to talk to this instance.
func (d Dir) Env() (map[string]string, error) {
	s, err := d.Load()
	if err != nil {
		return nil, err
	}
	abs, err := filepath.Abs(string(d))
	if err != nil {
		return nil, fmt.Errorf("instance folder: %w", err)
	}
	env := map[string]string{"WEIR_DIR": abs}
	if v, ok := s.Service("admission"); ok {
		env["WEIR_URL"] = v.Address
		if v.GRPC != "" {
			env["WEIR_GRPC"] = v.GRPC
		}
	}
	if p, ok := s.Part("kafka"); ok {
		env["WEIR_KAFKA"] = p.Address
		if a, err := bus.ParseAddress(p.Address); err == nil {
			env["WEIR_KAFKA_BROKERS"] = strings.Join(a.Brokers, ",")
		}
	}
	for part, name := range map[string]string{"redis": "WEIR_REDIS", "postgres": "WEIR_POSTGRES", "clickhouse": "WEIR_CLICKHOUSE"} {
		if p, ok := s.Part(part); ok {
			env[name] = p.Address
		}
	}
	if u, err := url.Parse(env["WEIR_CLICKHOUSE"]); err == nil && strings.HasPrefix(u.Scheme, "http") {
		env["WEIR_CLICKHOUSE_URL"] = u.Scheme + "://" + u.Host
		if secret, err := d.ReadSecret(secretFinance); err == nil {
			env["WEIR_FINANCE_PASSWORD"] = secret
		}
	}
	return env, nil
}
