//go:build integration

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/testkit"
)

// binEnv tells the tests where the programs are.
const binEnv = "WEIR_TEST_BIN"

// TestMain builds weir and the five services once, as `make build` does, unless that has just been done.
func TestMain(m *testing.M) {
	os.Exit(func() int {
		if os.Getenv(binEnv) != "" {
			return m.Run()
		}
		dir, err := os.MkdirTemp("", "weir-bin-*")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		args := []string{"build", "-o", dir + "/", "github.com/weir-project/weir/pkg/cmd/weir"}
		for _, s := range []string{"admission", "outbox-relay", "cost-attributor", "budget-aggregator", "breaker"} {
			args = append(args, "github.com/weir-project/weir/services/"+s+"/cmd/"+s)
		}
		if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
			return 1
		}
		os.Setenv(binEnv, dir)
		return m.Run()
	}())
}

// place is a folder for one instance.
type place struct {
	t   *testing.T
	dir string
	// month is the one that acme spends in, as `weir bill` wants it.
	month string
}

// newInstance is a place whose processes end with the test, however it ends.
func newInstance(t *testing.T) *place {
	t.Helper()
	alone(t)
	p := &place{t: t, dir: filepath.Join(t.TempDir(), "instance")}
	t.Cleanup(p.killAll)
	return p
}

// run runs the program itself, as a process.
func (p *place) run(args ...string) answer {
	p.t.Helper()
	return p.runIn("", args...)
}

func (p *place) runIn(stdin string, args ...string) answer {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 8*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(os.Getenv(binEnv), "weir"), append(args, "--dir", p.dir)...)
	var out, errOut bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errOut
	err := cmd.Run()
	if ctx.Err() != nil || err != nil && cmd.ProcessState == nil {
		p.t.Fatalf("weir %v: %v\n%s", args, err, errOut.String())
	}
	return answer{cmd.ProcessState.ExitCode(), out.String(), errOut.String()}
}

// must runs the program and wants exit 0.
func (p *place) must(args ...string) answer {
	p.t.Helper()
	a := p.run(args...)
	if a.code != 0 {
		p.t.Fatalf("weir %v: exit %d\n%s%s", args, a.code, a.out, a.err)
	}
	return a
}

// sh runs a line of shell with `weir` and $D.
func (p *place) sh(line string) answer {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 8*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	cmd.Env = append(os.Environ(), "D="+p.dir, "PATH="+os.Getenv(binEnv)+":"+os.Getenv("PATH"))
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	if ctx.Err() != nil || cmd.ProcessState == nil {
		p.t.Fatalf("%s: %v\n%s", line, err, errOut.String())
	}
	return answer{cmd.ProcessState.ExitCode(), out.String(), errOut.String()}
}

// process and part are the entries of `weir status --json`, exactly.
type process struct {
	Name    string `json:"name"`
	Kind    string `json:"kind"`
	State   string `json:"state"`
	PID     *int   `json:"pid"`
	Address string `json:"address"`
	GRPC    string `json:"grpc"` // of admission
	Reason  string `json:"reason"`
}

type status struct {
	Services []process `json:"services"`
	Parts    []process `json:"parts"`
}

func (p *place) status() status {
	p.t.Helper()
	return decodeJSON[status](p.t, p.run("status", "--json"))
}

// alive reports whether a process runs. As a zombie it does as long as further threads of it are on their way out: until then it
// has its ports and files.
func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	return len(f) > 17 && f[0] != "X" && (f[0] != "Z" || f[17] != "0" && f[17] != "1")
}

// pids are the processes of the instance that run.
func (p *place) pids() map[string]int {
	b, err := os.ReadFile(filepath.Join(p.dir, "instance.json"))
	if err != nil {
		return nil
	}
	type entry struct {
		Name string `json:"name"`
		PID  int    `json:"pid"`
	}
	var s struct{ Parts, Services []entry }
	if err := json.Unmarshal(b, &s); err != nil {
		p.t.Fatal(err)
	}
	pids := map[string]int{}
	for _, e := range append(s.Parts, s.Services...) {
		if e.PID > 0 && alive(e.PID) {
			pids[e.Name] = e.PID
		}
	}
	return pids
}

// killAll ends every process at once, as a power cut would, Postgres' children included.
func (p *place) killAll() {
	for _, pid := range p.pids() {
		children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
		_ = syscall.Kill(pid, syscall.SIGKILL)
		for _, f := range strings.Fields(string(children)) {
			var child int
			if _, err := fmt.Sscan(f, &child); err == nil {
				_ = syscall.Kill(child, syscall.SIGKILL)
			}
		}
	}
	p.wait("every process is gone", func() bool { return len(p.pids()) == 0 })
}

// waitWithin is the deadline of what a test waits for.
const waitWithin = 3 * time.Minute

// wait polls a condition with a deadline.
func (p *place) wait(what string, ok func() bool) {
	p.t.Helper()
	if !comes(ok) {
		p.t.Fatalf("after %s not yet: %s", waitWithin, what)
	}
}

// comes reports whether a condition holds before the deadline, also to other goroutines than the test's.
func comes(ok func() bool) bool {
	deadline := time.Now().Add(waitWithin)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			return false
		}
		<-tick.C
	}
	return true
}

// reply is an HTTP answer with its JSON.
type reply struct {
	status int
	body   map[string]any
	text   string
}

// call talks to the instance's admission. Where a store did not answer in time, as on a machine that stands still for a moment,
// it asks again, as every caller does: ids make that safe.
func (p *place) call(method, path, key, body string) (r reply) {
	p.t.Helper()
	var url string
	for _, s := range p.status().Services {
		if strings.HasPrefix(s.Name, "admission") {
			url = s.Address
		}
	}
	p.wait("a store answers "+method+" "+path, func() bool {
		r = p.callOnce(method, url+path, key, body)
		return r.body["code"] != "budget_store_unavailable"
	})
	return r
}

func (p *place) callOnce(method, url, key, body string) reply {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	r := reply{status: resp.StatusCode, text: string(b)}
	_ = json.Unmarshal(b, &r.body) // an empty body has none
	return r
}

// audit is `weir audit`, which waits for as long as the books may take on a slow machine, and is asked again where they moved while
// they were read.
func (p *place) audit(flags ...string) (a answer) {
	p.t.Helper()
	p.wait("an audit of books at rest", func() bool {
		a = p.run(append([]string{"audit", "--wait", waitWithin.String()}, flags...)...)
		return a.code != 3
	})
	return a
}

// signal sends a signal to a process of the instance that runs.
func (p *place) signal(name string, s syscall.Signal) {
	p.t.Helper()
	pid := p.pids()[name] // none is 0, which would mean the tests themselves
	if pid == 0 {
		p.t.Fatalf("%s to %s: it does not run", s, name)
	}
	if err := syscall.Kill(pid, s); err != nil {
		p.t.Fatal(err)
	}
}

// spend reserves and settles 1,000 input and 10 output tokens of gpt-4o: $0.0026.
func (p *place) spend(key, id string) {
	p.t.Helper()
	r := p.call("POST", "/v1/reservations", key, `{"reservation_id": "`+id+`", "provider": "openai", "model": "gpt-4o", "estimate": {"input_tokens": 1000, "max_output_tokens": 20}}`)
	if r.status != 201 {
		p.t.Fatalf("reserve %s: %d %s", id, r.status, r.text)
	}
	r = p.call("POST", "/v1/reservations/"+id+"/settle", key, `{"api": "chat.completions", "usage": {"prompt_tokens": 1000, "completion_tokens": 10}}`)
	if r.status != 200 || r.body["cost_usd"] != "0.0026" {
		p.t.Fatalf("settle %s: %d %s", id, r.status, r.text)
	}
}

// twoTenants: acme's day and month are not UTC's, and do not turn while a test runs.
const twoTenants = `tenants:
  - {id: acme, limits: {concurrency: 20}, ceilings: {minute_usd: 50, day_usd: 100, month_usd: 1000}, markup_percent: 12.5, timezone: MIDDAY,
     scopes: [{agent: "*", ceilings: {day_usd: 50}}, {cost_center: unassigned, ceilings: {month_usd: 500}}, {api_key: "*", ceilings: {minute_usd: 40}}]}
  - {id: beta, limits: {concurrency: 20}, ceilings: {minute_usd: 50, day_usd: 100, month_usd: 1000}}
`

// fill applies two tenants and the sample's prices, and returns a key of acme. Whatever these commands return from is
// in force: the reservations that follow need it at once.
func (p *place) fill(root string) string {
	p.t.Helper()
	now := time.Now()
	p.month = now.UTC().Format("2006-01")
	tenants := strings.Replace(twoTenants, "MIDDAY", testkit.Midday(now), 1)
	p.must("tenants", "apply", file(p.t, filepath.Join(p.t.TempDir(), "tenants.yaml"), tenants))
	p.must("prices", "import", filepath.Join(root, "../../domain/testdata/prices_sample.json"), "--yes")
	return decodeJSON[map[string]any](p.t, p.must("keys", "create", "--tenant", "acme", "--json"))["key"].(string)
}
