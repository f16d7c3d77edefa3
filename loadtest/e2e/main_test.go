//go:build integration

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-project/weir/loadtest"
	"github.com/weir-project/weir/loadtest/caller"
	"github.com/weir-project/weir/loadtest/oracle"
	"github.com/weir-project/weir/loadtest/rig"
	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/testkit"
)

// bin holds the programs, of `make build` or of TestMain; root is the repository.
var bin, root string

func TestMain(m *testing.M) {
	code, err := build(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = 1
	}
	os.Exit(code)
}

func build(m *testing.M) (int, error) {
	var err error
	if root, err = filepath.Abs("../.."); err != nil {
		return 0, err
	}
	if bin = os.Getenv("WEIR_TEST_BIN"); bin == "" { // `make build` was not just run
		if bin, err = os.MkdirTemp("", "weir-e2e-bin-"); err != nil {
			return 0, err
		}
		defer os.RemoveAll(bin)
		if err := buildPrograms(); err != nil {
			return 0, err
		}
	}
	// Kafka's shortest: after a kill, the partitions wait as long as this for the one that died.
	for _, service := range []string{"COST_ATTRIBUTOR", "BUDGET_AGGREGATOR", "BREAKER"} {
		if err := os.Setenv(service+"_SESSION", "6s"); err != nil {
			return 0, err
		}
	}
	return m.Run(), nil
}

func buildPrograms() error {
	args := []string{"build", "-buildvcs=false", "-o", bin, "./pkg/cmd/weir"}
	for _, service := range programs() {
		args = append(args, "./services/"+service+"/cmd/"+service)
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	return nil
}

// world is one running instance and its clients.
type world struct {
	*rig.Rig
	t      *testing.T
	sender *rig.Sender
	keys   map[string]string
	gates  *gates
	zone   string // of tenants whose file says MIDDAY: their day and month do not turn while a test runs
}

// gates are the addresses of the copies of admission. They change while others use them.
type gates struct {
	list atomic.Pointer[[]string]
	next atomic.Int64
}

// pick takes the copies in turn.
func (g *gates) pick() string {
	all := *g.list.Load()
	return all[int(g.next.Add(1))%len(all)]
}

// flags of `weir up` by kind of Kafka.
func kafkaFlags(kind string) []string {
	if kind == "apache" {
		return []string{"--apache-kafka"}
	}
	return nil
}

// start brings an instance up in a folder of its own, with the sample prices. It goes down with the test.
func start(t *testing.T, flags ...string) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "weir-e2e-")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{Rig: &rig.Rig{Bin: bin, Dir: filepath.Join(dir, "d")}, t: t, keys: map[string]string{}, gates: &gates{}, zone: testkit.Midday(time.Now())}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if t.Failed() {
			w.logs()
		}
		if w.sender != nil {
			w.sender.Close(ctx) // whatever it still holds, the test is over
		}
		if err := w.Down(ctx); err != nil {
			t.Error(err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	w.up(flags...)
	w.prices()
	if w.sender, err = w.Sender(); err != nil {
		t.Fatal(err)
	}
	return w
}

// logs shows what each service warned of last.
func (w *world) logs() {
	files, _ := filepath.Glob(filepath.Join(w.Dir, "log", "*.log")) // the pattern is well formed
	for _, file := range files {
		raw, err := os.ReadFile(file)
		var lines []string
		for line := range strings.Lines(string(raw)) {
			if strings.Contains(line, `"WARN"`) || strings.Contains(line, `"ERROR"`) || strings.HasPrefix(line, "panic") {
				lines = append(lines, line)
			}
		}
		if err != nil || len(lines) > 0 {
			w.t.Logf("%s %v:\n%s", filepath.Base(file), err, strings.Join(lines[max(0, len(lines)-5):], ""))
		}
	}
}

// up is `weir up`, and finds all copies of admission.
func (w *world) up(flags ...string) {
	w.t.Helper()
	if err := w.Up(w.t.Context(), flags...); err != nil {
		w.t.Fatal(err)
	}
	var urls []string
	for _, p := range w.status().Services {
		if strings.HasPrefix(p.Name, "admission") {
			urls = append(urls, p.Address)
		}
	}
	w.gates.list.Store(&urls)
}

func (w *world) status() rig.Status {
	w.t.Helper()
	s, err := w.Status(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// weir runs a command that must exit with 0.
func (w *world) weir(args ...string) string {
	w.t.Helper()
	out, err := w.Weir(w.t.Context(), args...)
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

func (w *world) file(name, content string) string {
	w.t.Helper()
	file := filepath.Join(w.Dir, name)
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		w.t.Fatal(err)
	}
	return file
}

func (w *world) prices() {
	w.t.Helper()
	w.weir("prices", "import", "--yes", w.file("prices.json", input(w.t, loadtest.Prices)))
}

// tenants applies a tenants file and makes a key for each tenant named.
func (w *world) tenants(yaml string, ids ...string) {
	w.t.Helper()
	w.weir("tenants", "apply", w.file("tenants.yaml", strings.ReplaceAll(yaml, "MIDDAY", w.zone)))
	for _, id := range ids {
		key, err := w.Key(w.t.Context(), id)
		if err != nil {
			w.t.Fatal(err)
		}
		w.keys[id] = key
	}
}

// client takes the copies of admission in turn.
func (w *world) client(tenant string) *caller.Client {
	return caller.New(w.gates.pick(), w.keys[tenant], connections)
}

var connections = caller.HTTP(64)

func input(t *testing.T, name string) string {
	t.Helper()
	raw, err := loadtest.Input(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// mustBill waits until the ledger is the bill, to the last digit.
func (w *world) mustBill(want oracle.Bill) {
	w.t.Helper()
	got, err := w.AwaitBill(w.t.Context(), want, patience)
	if err != nil {
		w.t.Fatal(err)
	}
	for i, d := range want.Differences(got) {
		if w.t.Errorf("%s", d); i == 10 {
			break
		}
	}
	if w.t.Failed() {
		w.t.FailNow()
	}
}

// mustAudit wants `weir audit` to be clean. Where the books moved while they were read, it is to be asked again.
func (w *world) mustAudit() {
	w.t.Helper()
	var out string
	await(w.t, "an audit of books at rest", func() bool {
		var err error
		out, err = w.Weir(w.t.Context(), "audit", "--wait", patience.String())
		var no *rig.CommandError
		if errors.As(err, &no) && no.Code == 3 {
			w.t.Log(err)
			return false
		}
		if err != nil {
			w.t.Fatal(err)
		}
		return true
	})
	if lines := strings.Split(strings.TrimSpace(out), "\n"); lines[len(lines)-1] != "audit: ok" {
		w.t.Fatalf("audit:\n%s", out)
	}
}

// mustRefuse wants a refusal with the code.
func mustRefuse(t *testing.T, err error, code string) *caller.Refusal {
	t.Helper()
	var r *caller.Refusal
	if !errors.As(err, &r) || r.Code != code {
		t.Fatalf("got %v, want %s", err, code)
	}
	return r
}

// patience is the deadline of what a test waits for. A machine that is busy, or stands still for some seconds, is no reason to fail.
const patience = 5 * time.Minute

// await polls until done, with a deadline.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := rig.Poll(ctx, 50*time.Millisecond, func() (bool, error) { return done(), nil }); err != nil {
		t.Fatalf("%s: not within %s", what, patience)
	}
}

// patient repeats a call whose answer was lost, or that a store did not answer in time, as every caller does: the ids make that safe.
func patient[T any](ctx context.Context, call func() (T, error)) (out T, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	late := rig.Poll(ctx, 100*time.Millisecond, func() (bool, error) {
		out, err = call()
		var r *caller.Refusal
		return err == nil || errors.As(err, &r) && r.Code != string(admit.StoreUnavailable), nil
	})
	return out, errors.Join(err, late)
}

// reserve and settle are those of a client, with patience.
func reserve(ctx context.Context, c *caller.Client, r caller.Reservation) (caller.Admission, error) {
	return patient(ctx, func() (caller.Admission, error) { return c.Reserve(ctx, r) })
}

func settle(ctx context.Context, c *caller.Client, id string, s caller.Settlement) (caller.Settled, error) {
	return patient(ctx, func() (caller.Settled, error) { return c.Settle(ctx, id, s) })
}

func release(ctx context.Context, c *caller.Client, id string) error {
	_, err := patient(ctx, func() (struct{}, error) { return struct{}{}, c.Release(ctx, id) })
	return err
}

func budget(ctx context.Context, c *caller.Client) (caller.Budget, error) {
	return patient(ctx, func() (caller.Budget, error) { return c.Budget(ctx) })
}
