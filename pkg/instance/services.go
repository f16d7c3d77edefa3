package instance

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/weir-project/weir/pkg/config"
	"github.com/weir-project/weir/pkg/embedded/part"
	"github.com/weir-project/weir/pkg/obs"
)

// Programs are the five services in the order in which they start: those that drain come before those that fill.
func Programs() []string {
	return []string{"breaker", "budget-aggregator", "cost-attributor", "outbox-relay", "admission"}
}

// uses are the parts that a program talks to, and its further flags; %s is the folder of the secrets.
func uses(program string) (parts, flags []string) {
	const hmac = "-hmac-secret-file=%s/" + secretHMAC
	switch program {
	case "admission":
		return []string{"kafka", "redis", "postgres"}, []string{hmac, "-token-key-file=%s/" + secretToken}
	case "outbox-relay":
		return []string{"kafka", "postgres"}, nil
	case "cost-attributor":
		return []string{"kafka", "clickhouse"}, []string{hmac, "-trust-topic"}
	case "budget-aggregator":
		return []string{"kafka", "clickhouse"}, nil
	default:
		return []string{"kafka"}, []string{hmac}
	}
}

// serviceCommand is how one copy of a program is run. Secrets go by file; an address that holds a password goes by the
// environment, which other users of the machine cannot read, unlike the command line.
func (d Dir) serviceCommand(bin, program, name, listen string, s State) part.Command {
	parts, flags := uses(program)
	c := part.Command{
		Kind: program, Address: "http://" + listen, Path: filepath.Join(bin, program), LogFile: d.Log(name), Args: []string{"-http=" + listen},
	}
	for _, p := range parts {
		known, _ := s.Part(p)
		if config.MaskURL(known.Address) != known.Address {
			variable := strings.ToUpper(strings.ReplaceAll(program, "-", "_")) + "_" + strings.ToUpper(p)
			c.Env = append(c.Env, variable+"="+known.Address)
			continue
		}
		c.Args = append(c.Args, "-"+p+"="+known.Address)
	}
	for _, f := range flags {
		c.Args = append(c.Args, strings.Replace(f, "%s", d.file("secrets"), 1))
	}
	return c
}

// settings identifies what a copy was told at its start, apart from its own address.
func settings(c part.Command) string {
	sum := sha256.Sum256([]byte(strings.Join(append(c.Args[1:], c.Env...), "\x00")))
	return hex.EncodeToString(sum[:8])
}

// startService starts one copy; grpc is its second port, 0 for none.
func (d Dir) startService(bin, program, name string, port, grpc int, s State) (Service, error) {
	listen := fmt.Sprintf("127.0.0.1:%d", port)
	c := d.serviceCommand(bin, program, name, listen, s)
	v := Service{Name: name, Program: program, Settings: settings(c)}
	if grpc > 0 { // like its own address, no reason to restart it
		v.GRPC = fmt.Sprintf("127.0.0.1:%d", grpc)
		c.Args = append(c.Args, "-grpc="+v.GRPC)
	}
	lock, err := part.Lock(d.lockOf(name))
	if err != nil {
		return Service{}, err
	}
	defer lock.Close()
	c.Lock = lock
	p, err := part.Spawn(c)
	if err != nil {
		return Service{}, err
	}
	v.Part = *p
	return v, nil
}

// unready says what a service is waiting for.
type unready struct {
	name, body string
	// codes are those of its checks, for programs.
	codes map[string]string
}

func (u unready) Error() string { return fmt.Sprintf("%s is not ready: %s", u.name, u.body) }

// Readiness asks a service's /readyz: nil when ready, else what it says is missing.
func (v Service) Readiness(ctx context.Context) error {
	body, code, err := v.get(ctx, "/readyz")
	if err != nil {
		return err
	}
	if code != http.StatusOK {
		var answer obs.NotReady
		_ = json.Unmarshal(body, &answer) // what does not decode has no codes
		return unready{name: v.Name, body: strings.TrimSpace(string(body)), codes: answer.Codes}
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

// ended says that a service ended while it was starting.
type ended struct{ Service }

// Error shows why, as far as its log knows.
func (e ended) Error() string {
	return fmt.Sprintf("%s ended while starting; the end of its log %s:\n%s", e.Name, e.LogFile, part.Tail(e.LogFile, 12))
}

// waitReady waits until every service is ready, and fails at once when one of them ends.
func waitReady(ctx context.Context, services []Service, progress func(ready, of int, reasons []error)) error {
	ctx, cancel := context.WithTimeout(ctx, recoverWithin)
	defer cancel()
	usual := time.After(readyWithin)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		ready, reasons := 0, []error(nil)
		for _, v := range services {
			if !v.Alive() {
				return ended{v}
			}
			if err := v.Readiness(ctx); err != nil {
				reasons = append(reasons, err)
				continue
			}
			ready++
		}
		progress(ready, len(services), reasons)
		if ready == len(services) {
			return nil
		}
		late := false
		select {
		case <-ctx.Done():
			late = true
		case <-usual:
			late = recovering(reasons) == nil
		case <-tick.C:
		}
		if late {
			return fmt.Errorf("not ready in time: %w", errors.Join(reasons...))
		}
	}
}
