package instance

import (
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weir-project/weir/pkg/embedded/part"
)

// sleeper is a process that stands for a part or service.
func sleeper(t *testing.T, kind, address string) part.Part {
	t.Helper()
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	p, err := part.Spawn(part.Command{Kind: kind, Address: address, Path: sleep, Args: []string{"300"}, LogFile: filepath.Join(t.TempDir(), "log")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Kill() })
	return *p
}

// noPID is above every process id.
const noPID = 1 << 30

func save(t *testing.T, s State) Dir {
	t.Helper()
	d := Dir(t.TempDir())
	if err := d.Save(s); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestStateFileIsPrivateAndWhole(t *testing.T) {
	d := save(t, State{Parts: []Part{{"postgres", part.Part{Kind: "postgres", Address: "postgres://weir:secret@127.0.0.1:1/weir", PID: 7}}}})
	info, err := os.Stat(d.file("instance.json"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v: it holds passwords", info.Mode(), err)
	}
	// What a crash in the middle of a write leaves is beside it, and never read.
	if err := os.WriteFile(d.file("instance.json.tmp"), []byte(`{"parts": [{"na`), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := d.Load()
	if err != nil || s.Version != 1 || len(s.Parts) != 1 || s.Parts[0].PID != 7 {
		t.Errorf("%+v, %v", s, err)
	}
	if err := d.Save(State{}); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(d.file("instance.json.tmp")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("left behind: %v", err)
	}
	if err := os.WriteFile(d.file("instance.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Load(); err == nil || errors.Is(err, ErrNone) || !strings.Contains(err.Error(), "instance.json") {
		t.Errorf("a broken file: %v", err)
	}
	if _, err := Dir(t.TempDir()).Load(); !errors.Is(err, ErrNone) {
		t.Errorf("no file: %v", err)
	}
}

func TestLockKeepsASecondOneOut(t *testing.T) {
	d := Dir(filepath.Join(t.TempDir(), "new"))
	unlock, err := d.Lock()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Lock(); err == nil || !strings.Contains(err.Error(), "at work") {
		t.Errorf("a second lock: %v", err)
	}
	unlock()
	again, err := d.Lock()
	if err != nil {
		t.Fatal(err)
	}
	again()
}

// A folder without an instance stays as it is.
func TestDownOfNothingMakesNothing(t *testing.T) {
	d := Dir(filepath.Join(t.TempDir(), "none"))
	if err := d.Down(func(string, ...any) {}); !errors.Is(err, ErrNone) {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(string(d)); err == nil {
		t.Error("down made the folder")
	}
}

func TestFreePort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	busy := l.Addr().(*net.TCPAddr).Port
	free, err := part.FreePort() // claimed, so that no other test takes it
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", t.TempDir()) // marks of the test's own
	taken := map[int]bool{}
	d := Dir(t.TempDir())
	if got, err := d.freePort(busy, taken); err != nil || got == busy || !taken[got] {
		t.Errorf("%d, %v instead of the taken %d", got, err, busy)
	}
	if got, err := d.freePort(free, taken); err != nil || got != free {
		t.Errorf("%d, %v instead of the free %d", got, err, free)
	}
	if got, err := d.freePort(free, taken); err != nil || got == free {
		t.Errorf("%d was given twice, %v", got, err)
	}
	if !portTaken(busy) || portTaken(free) {
		t.Error("portTaken")
	}
}

// The port of a service that was killed is its instance's as long as anything of that runs, and then anybody's.
func TestPortsOfOthers(t *testing.T) {
	gone := part.Part{PID: noPID, Start: 1, Address: "http://127.0.0.1:18080"}
	redis := sleeper(t, "redis-server", "redis://127.0.0.1:16379/0")
	other := State{Parts: []Part{{"redis", redis}}, Services: []Service{{Name: "admission", Program: "admission", GRPC: "127.0.0.1:18200", Part: gone}}}
	for port, want := range map[int]bool{18080: true, 18200: true, 16379: true, 15432: false} {
		if got := save(t, other).needs(port); got != want {
			t.Errorf("%d is needed: %v, want %v", port, got, want)
		}
	}
	if err := redis.Kill(); err != nil {
		t.Fatal(err)
	}
	if save(t, other).needs(18080) || Dir(t.TempDir()).needs(18080) {
		t.Error("an instance that is down keeps its ports")
	}
}

func TestSecretsAreMadeOnce(t *testing.T) {
	d := Dir(t.TempDir())
	names := []string{secretHMAC, secretToken, secretFinance, secretDefault}
	before := map[string]string{}
	for range 2 {
		if err := d.ensureSecrets(); err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			info, err := os.Stat(d.Secret(name))
			if err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%s: %v, %v", name, info, err)
			}
			s, err := d.ReadSecret(name)
			if err != nil || len(s) < 32 || before[name] != "" && before[name] != s {
				t.Errorf("%s: %v, or it changed", name, err)
			}
			before[name] = s
		}
	}
	if before[secretFinance] == before[secretDefault] {
		t.Error("two secrets are the same")
	}
	if info, err := os.Stat(d.file("secrets")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("folder: %v, %v", info.Mode(), err)
	}
	// A crash may have left some: only those that are missing are made.
	if err := os.Remove(d.Secret(secretHMAC)); err != nil {
		t.Fatal(err)
	}
	if err := d.ensureSecrets(); err != nil {
		t.Fatal(err)
	}
	if s, err := d.ReadSecret(secretToken); err != nil || s != before[secretToken] {
		t.Errorf("the token key changed: %v", err)
	}
}

// status is asked of a live ready service, a live one that is not, two that hang and dead processes. The hung ones are asked side by
// side: while one waits for its time to be over, the other is asked too.
func TestStatus(t *testing.T) {
	ready := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer ready.Close()
	waiting := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "kafka: away", http.StatusServiceUnavailable)
	}))
	defer waiting.Close()
	var asked, most atomic.Int32
	hung := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 2 {
			most.Store(2)
		}
		<-r.Context().Done() // the one who asks has gone
		asked.Add(-1)
	}))
	defer hung.Close()
	dead := sleeper(t, "redis-server", "redis://127.0.0.1:1/0")
	if err := dead.Kill(); err != nil {
		t.Fatal(err)
	}
	service := func(name string, p part.Part) Service { return Service{Name: name, Program: name, Part: p} }
	d := save(t, State{
		Parts: []Part{
			{"kafka", sleeper(t, "kfake", "kafka://127.0.0.1:1")}, {"redis", dead},
			{"postgres", part.Part{Kind: KindExternal, Address: "postgres://u:secret@h/d"}},
			{"clickhouse", sleeper(t, "libchdb", ready.URL)},
		},
		Services: []Service{
			service("admission-1", sleeper(t, "admission", ready.URL)), service("admission-2", sleeper(t, "admission", waiting.URL)),
			service("breaker", sleeper(t, "breaker", hung.URL)), service("outbox-relay", sleeper(t, "outbox-relay", hung.URL)),
			service("cost-attributor", part.Part{PID: os.Getpid(), Address: ready.URL}), // another process has the pid by now
		},
	})
	st, err := d.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if most.Load() != 2 {
		t.Error("the hung services were asked one after the other")
	}
	if st.Healthy() {
		t.Error("healthy")
	}
	for i, want := range []string{"not answering", "stopped", "external", "running"} {
		if p := st.Parts[i]; p.State != want || (p.PID != nil) != (want == "running" || want == "not answering") || strings.Contains(p.Address, "secret") {
			t.Errorf("%+v, want %s", p, want)
		}
	}
	for i, want := range []string{"ready", "not ready", "not ready", "not ready", "stopped"} {
		if v := st.Services[i]; v.State != want || (v.PID != nil) != (want != "stopped") || (v.Reason != "") != (want == "not ready") {
			t.Errorf("%+v, want %s", v, want)
		}
	}
	if !strings.Contains(st.Services[1].Reason, "kafka: away") {
		t.Errorf("reason %q", st.Services[1].Reason)
	}
}

// The JSON of an instance without services is an empty list, not null.
func TestStatusJSONOfAnEmptyInstance(t *testing.T) {
	st, err := save(t, State{}).Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if b, err := json.Marshal(st); err != nil || string(b) != `{"services":[],"parts":[]}` {
		t.Errorf("%s, %v", b, err)
	}
	if st.Healthy() {
		t.Error("an empty instance is healthy")
	}
}

func TestEnv(t *testing.T) {
	d := save(t, State{
		Parts: []Part{
			{"kafka", part.Part{Address: "kafka://127.0.0.1:19092"}}, {"clickhouse", part.Part{Address: "http://default:pw@127.0.0.1:18123/weir"}},
			{"redis", part.Part{Address: "redis://127.0.0.1:1/0"}}, {"postgres", part.Part{Address: "postgres://weir:it's@h/weir"}},
		},
		Services: []Service{{Name: "admission-1", Program: "admission", Part: part.Part{Address: "http://127.0.0.1:18080"}}},
	})
	if err := d.ensureSecrets(); err != nil {
		t.Fatal(err)
	}
	env, err := d.Env()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"WEIR_DIR": string(d), "WEIR_URL": "http://127.0.0.1:18080", "WEIR_KAFKA": "kafka://127.0.0.1:19092", "WEIR_KAFKA_BROKERS": "127.0.0.1:19092",
		"WEIR_POSTGRES": "postgres://weir:it's@h/weir", "WEIR_REDIS": "redis://127.0.0.1:1/0", "WEIR_CLICKHOUSE_URL": "http://127.0.0.1:18123",
	} {
		if env[name] != want {
			t.Errorf("%s is %q, want %q", name, env[name], want)
		}
	}
	if secret, err := d.ReadSecret(secretFinance); err != nil || env["WEIR_FINANCE_PASSWORD"] != secret {
		t.Errorf("finance: %v", err)
	}
}
