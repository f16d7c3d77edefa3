package instance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/weir-project/weir/pkg/embedded/part"
)

// Programs are the five services in the order in which they start: those that drain come before those that fill.
func Programs() []string {
	return []string{"breaker", "budget-aggregator", "cost-attributor", "outbox-relay", "admission"}
}

// serviceArgs are the flags of one program: addresses of the parts, secrets by file.
func (d Dir) serviceArgs(program string, s State, listen string) []string {
	addr := func(part string) string { p, _ := s.Part(part); return p.Address }
	args := []string{"-http", listen, "-kafka", addr("kafka")}
	switch program {
	case "admission":
		args = append(args, "-redis", addr("redis"), "-postgres", addr("postgres"),
			"-hmac-secret-file", d.Secret(SecretHMAC), "-token-key-file", d.Secret(SecretToken))
	case "outbox-relay":
		args = append(args, "-postgres", addr("postgres"))
	case "cost-attributor":
		args = append(args, "-clickhouse", addr("clickhouse"), "-hmac-secret-file", d.Secret(SecretHMAC), "-trust-topic")
	case "budget-aggregator":
		args = append(args, "-clickhouse", addr("clickhouse"))
	case "breaker":
		args = append(args, "-hmac-secret-file", d.Secret(SecretHMAC))
	}
	return args
}

// startService starts one copy and remembers it in s.
func (d Dir) startService(s *State, bin, program, name string, port int) error {
	listen := fmt.Sprintf("127.0.0.1:%d", port)
	p, err := part.Spawn(part.Command{
		Kind: program, Address: "http://" + listen, Path: filepath.Join(bin, program),
		Args: d.serviceArgs(program, *s, listen), LogFile: d.Log(name),
	})
	if err != nil {
		return err
	}
	s.Services = append(s.Services, Service{Name: name, Program: program, Part: *p})
	return nil
}

// Readiness asks a service's /readyz: nil when ready, else what it says is missing.
func (v Service) Readiness(ctx context.Context) error {
	body, code, err := v.get(ctx, "/readyz")
	if err != nil {
		return err
	}
	if code != http.StatusOK {
		return fmt.Errorf("%s is not ready: %s", v.Name, strings.TrimSpace(string(body)))
	}
	return nil
}

// Catalog is the offsets that a service has applied, by topic and partition: the next one it will read.
func (v Service) Catalog(ctx context.Context) (map[string]map[int32]int64, error) {
	body, code, err := v.get(ctx, "/catalogz")
	if err != nil {
		return nil, err
	}
	if code != http.StatusOK {
		return nil, fmt.Errorf("%s: /catalogz answers %d", v.Name, code)
	}
	var out map[string]map[int32]int64
	if err := json.Unmarshal(body, &out); err != nil {
		return nil, fmt.Errorf("%s: /catalogz: %w", v.Name, err)
	}
	return out, nil
}

func (v Service) get(ctx context.Context, path string) ([]byte, int, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, v.Address+path, nil)
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", v.Name, err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, 0, fmt.Errorf("%s does not answer: %w", v.Name, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", v.Name, err)
	}
	return body, resp.StatusCode, nil
}

// waitReady waits until every service is ready, and fails at once when one of them ends.
func waitReady(ctx context.Context, services []Service, progress func(ready, of int)) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		ready, reasons := 0, []error(nil)
		for _, v := range services {
			if !v.Alive() {
				return fmt.Errorf("%s ended while starting; the end of its log %s:\n%s", v.Name, v.LogFile, part.Tail(v.LogFile, 12))
			}
			if err := v.Readiness(ctx); err != nil {
				reasons = append(reasons, err)
				continue
			}
			ready++
		}
		progress(ready, len(services))
		if ready == len(services) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not ready in time: %w", errors.Join(reasons...))
		case <-tick.C:
		}
	}
}
