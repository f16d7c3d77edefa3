//go:build integration

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// TestLife takes one instance through a life: up, use, down with hung processes, up, a power cut, up, lost data.
func TestLife(t *testing.T) {
	root := here(t)
	ownPrograms(t)
	t.Setenv("ADMISSION_MAX_LEASE", "2s") // what a recovery waits for
	p := newInstance(t)
	started := p.sh(`weir up --dir "$D" 2>&1 | cat`) // returns only if no child holds the pipe
	if started.code != 0 || !strings.Contains(started.out, "services ready: 5 of 5") || !strings.Contains(started.out, p.dir) {
		t.Fatalf("up: %+v", started)
	}
	checkStatus(t, p)
	if again := p.must("up", "--json"); !strings.Contains(again.out, `"services"`) {
		t.Errorf("up --json says %s", again.out)
	}
	checkNewBuild(t, p)
	key := p.fill(root)
	for i := range 5 {
		p.spend(key, fmt.Sprintf("r%d", i))
	}
	checkEnv(t, p)
	checkKeys(t, p)
	p.wait("the budget shows what was spent", func() bool { return strings.Contains(p.budget(key), "0.013") })
	p.atRest()
	before := p.budget(key)
	checkHungDown(t, p)
	p.must("up")
	if after := p.budget(key); after != before {
		t.Errorf("after down and up:\n%s\nbefore:\n%s", after, before)
	}
	p.spend(key, "after-down")

	p.killAll()
	if a := p.run("status"); a.code != 1 || strings.Count(a.out, "stopped") != 9 {
		t.Errorf("after a power cut: %+v", a)
	}
	if a := p.run("tenants", "show"); a.code != 3 || !strings.Contains(a.err, "weir up --dir") {
		t.Errorf("a command on a dead instance: %+v", a)
	}
	p.must("up")
	p.spend(key, "after-the-cut")
	checkKilledNow(t, p)
	if a := p.audit(); a.code != 0 || !strings.Contains(a.out, "audit: ok") {
		t.Errorf("audit after the cut: %+v", a)
	}
	checkLostData(t, p, key)
}

// ownPrograms gives a test programs of its own to change: other packages' tests run those of `make build` at the same time.
func ownPrograms(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(os.Getenv(binEnv))); err != nil {
		t.Fatal(err)
	}
	t.Setenv(binEnv, dir)
}

// checkNewBuild: the service whose program was built anew is restarted by `up`, and no other.
func checkNewBuild(t *testing.T, p *place) {
	t.Helper()
	before, breaker := p.pids(), filepath.Join(os.Getenv(binEnv), "breaker")
	program, err := os.ReadFile(breaker)
	if err == nil {
		err = os.Remove(breaker) // as a build does: a program that runs cannot be written to
	}
	if err == nil {
		err = os.WriteFile(breaker, append(program, "another build"...), 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	if a := p.must("up"); !strings.Contains(a.err, "restarting breaker: it runs another build") {
		t.Errorf("up of a new build: %+v", a)
	}
	for name, pid := range p.pids() {
		if restarted := pid != before[name]; restarted != (name == "breaker") {
			t.Errorf("%s: restarted %v", name, restarted)
		}
	}
}

// atRest waits until nothing is on its way to the budgets any more, as a late settle would be.
func (p *place) atRest() {
	p.t.Helper()
	if a := p.audit(); a.code != 0 {
		p.t.Fatalf("audit: %+v", a)
	}
}

// budget is acme's counters without what the clock moves.
func (p *place) budget(key string) string {
	p.t.Helper()
	r := p.call("GET", "/v1/budget", key, "")
	if r.status != 200 {
		p.t.Fatalf("budget: %d %s", r.status, r.text)
	}
	windows, _ := r.body["windows"].(map[string]any)
	return fmt.Sprint(windows["day"], windows["month"])
}

// checkStatus wants the shape of `weir status --json` that scripts rely on, and pids that are the processes themselves.
func checkStatus(t *testing.T, p *place) {
	t.Helper()
	s := p.status()
	var parts, services []string
	programs := map[string]string{"kafka": "weir", "redis": "redis-", "postgres": "postgres", "clickhouse": "weir"}
	for _, x := range s.Parts {
		parts = append(parts, x.Name)
		if x.State != "running" || x.Kind == "" || x.PID == nil {
			t.Errorf("%+v", x)
			continue
		}
		checkProgram(t, *x.PID, programs[x.Name])
	}
	for _, x := range s.Services {
		services = append(services, x.Name)
		if x.State != "ready" || x.PID == nil || !strings.HasPrefix(x.Address, "http://127.0.0.1:") {
			t.Errorf("%+v", x)
			continue
		}
		checkProgram(t, *x.PID, x.Name)
	}
	slices.Sort(services)
	if !slices.Equal(parts, []string{"kafka", "redis", "postgres", "clickhouse"}) ||
		!slices.Equal(services, []string{"admission", "breaker", "budget-aggregator", "cost-attributor", "outbox-relay"}) {
		t.Errorf("parts %v, services %v", parts, services)
	}
	text := p.must("status")
	if lines := strings.Split(strings.TrimSpace(text.out), "\n"); len(lines) != 12 || !strings.Contains(lines[0], p.dir) || strings.Contains(text.out, "weir:weir@") {
		t.Errorf("status:\n%s", text.out)
	}
}

func checkProgram(t *testing.T, pid int, program string) {
	t.Helper()
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil || !strings.HasPrefix(filepath.Base(exe), program) {
		t.Errorf("pid %d runs %s (%v), not %s", pid, exe, err, program)
	}
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || strings.Contains(string(line), "://weir:") || strings.Contains(string(line), "://default:") {
		t.Errorf("command line %q, %v", line, err)
	}
	for fd := range 3 { // only the log and the null device
		to, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pid, fd))
		if err != nil || strings.HasPrefix(to, "pipe:") {
			t.Errorf("%s holds %s as %d, %v", program, to, fd, err)
		}
	}
}

// checkEnv evaluates the exports in a shell and uses them.
func checkEnv(t *testing.T, p *place) {
	t.Helper()
	a := p.sh(`eval "$(weir env --dir "$D")" && echo "$WEIR_URL $WEIR_KAFKA_BROKERS $WEIR_DIR" && weir tenants show acme --json &&
		curl -sf "$WEIR_CLICKHOUSE_URL/?database=weir" -u "finance:$WEIR_FINANCE_PASSWORD" --data 'SELECT count() FROM agent_cost_ledger' &&
		curl -s -o /dev/null -w '%{http_code}\n' "$WEIR_URL/readyz"`)
	if a.code != 0 || !strings.Contains(a.out, p.dir) || !strings.Contains(a.out, `"acme"`) || !strings.HasSuffix(a.out, "200\n") {
		t.Errorf("env: %+v", a)
	}
}

// checkKeys: a command about keys returns when every replica knows.
func checkKeys(t *testing.T, p *place) {
	t.Helper()
	made := decodeJSON[map[string]any](t, p.must("keys", "create", "--tenant", "beta", "--json"))
	key := made["key"].(string)
	if r := p.call("GET", "/v1/budget", key, ""); r.status != 200 {
		t.Errorf("a new key: %d %s", r.status, r.text)
	}
	p.must("keys", "revoke", made["key_id"].(string))
	if r := p.call("GET", "/v1/budget", key, ""); r.status != 401 {
		t.Errorf("a revoked key: %d %s", r.status, r.text)
	}
}

// checkKilledNow: what was killed just now, and is on its way out, is started again all the same.
func checkKilledNow(t *testing.T, p *place) {
	t.Helper()
	before := p.pids()
	for _, name := range []string{"clickhouse", "cost-attributor"} {
		p.signal(name, syscall.SIGKILL)
	}
	p.must("up")
	for name, pid := range p.pids() {
		if killed := name == "clickhouse" || name == "cost-attributor"; killed != (pid != before[name]) {
			t.Errorf("%s: was %d, is %d", name, before[name], pid)
		}
	}
}

// checkHungDown stops a part and a service with SIGSTOP; down ends both. (How soon is in its bounds: see TestDownIsBounded.)
func checkHungDown(t *testing.T, p *place) {
	t.Helper()
	for _, name := range []string{"redis", "admission"} {
		p.signal(name, syscall.SIGSTOP)
	}
	if a := p.run("status"); a.code != 1 || !strings.Contains(a.out, "admission does not answer") {
		t.Errorf("status with a hung service: %+v", a)
	}
	p.must("down")
	if left := p.pids(); len(left) != 0 {
		t.Errorf("still there: %v", left)
	}
	p.must("down") // it is down
}

// checkLostData: nobody starts with a fresh budget because Redis' files are gone.
func checkLostData(t *testing.T, p *place, key string) {
	t.Helper()
	p.wait("nothing is held", func() bool { return strings.Count(p.budget(key), "held_usd:0 ") == 2 })
	p.atRest()
	before := p.budget(key)
	p.must("down")
	data := filepath.Join(p.dir, "data", "redis")
	entries, err := os.ReadDir(data)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries { // the folder stays, as after a failed disk that was replaced
		if err := os.RemoveAll(filepath.Join(data, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	if a := p.must("up"); !strings.Contains(a.err, "is being recovered") {
		t.Errorf("up without Redis' files says %s", a.err)
	}
	if after := p.budget(key); after != before { // never a fresh budget
		t.Errorf("after the loss of Redis' files:\n%s\nbefore:\n%s", after, before)
	}
	if a := p.audit(); a.code != 0 || !strings.Contains(a.out, "audit: ok") {
		t.Errorf("audit after the loss: %+v", a)
	}
	p.must("down")
}

// TestSideBySide runs two instances at once, one with three copies of admission.
func TestSideBySide(t *testing.T) {
	root := here(t)
	a, b := newInstance(t), newInstance(t)
	a.must("up", "--replicas", "admission=3")
	b.must("up")
	names := func() string {
		var out []string
		for _, s := range a.status().Services {
			if strings.HasPrefix(s.Name, "admission") {
				out = append(out, s.Name)
			}
		}
		return strings.Join(out, " ")
	}
	if got := names(); got != "admission-1 admission-2 admission-3" {
		t.Errorf("copies: %s", got)
	}
	addresses := map[string]bool{}
	for _, s := range []status{a.status(), b.status()} {
		for _, x := range append(s.Parts, s.Services...) {
			if addresses[x.Address] {
				t.Errorf("two processes at %s", x.Address)
			}
			addresses[x.Address] = true
		}
	}
	keyA, keyB := a.fill(root), b.fill(root)
	for i := range 6 {
		a.spend(keyA, fmt.Sprintf("r%d", i)) // every copy knows tenants, prices and keys
	}
	b.spend(keyB, "r0")
	if r := b.call("GET", "/v1/budget", keyA, ""); r.status != 401 {
		t.Errorf("a's key at b: %d", r.status)
	}
	for _, p := range []*place{a, b} {
		if got := p.audit(); got.code != 0 {
			t.Errorf("audit: %+v", got)
		}
	}
	a.must("up")
	if got := names(); got != "admission-1 admission-2 admission-3" {
		t.Errorf("up again: %s", got)
	}
	a.must("up", "--replicas", "admission=1")
	if got := names(); got != "admission" || len(a.pids()) != 9 {
		t.Errorf("fewer copies: %s, %v", got, a.pids())
	}
	a.must("down")
	if len(b.pids()) != 9 {
		t.Errorf("down of one ended the other's: %v", b.pids())
	}
	b.must("down")
}
