package instance

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-project/weir/pkg/embedded/part"
)

func parts(postgres string) State {
	return State{Parts: []Part{
		{"kafka", part.Part{Address: "kafka://127.0.0.1:1"}}, {"redis", part.Part{Address: "redis://127.0.0.1:2/0"}},
		{"postgres", part.Part{Address: postgres}}, {"clickhouse", part.Part{Address: "http://default:hidden@127.0.0.1:4"}},
	}}
}

// Command lines are public on a machine: no password and no secret may stand on one.
func TestServiceCommandsShowNoSecret(t *testing.T) {
	d := Dir("/w")
	s := parts("postgres://weir:hidden@127.0.0.1:3/weir")
	for _, program := range Programs() {
		c := d.serviceCommand("/bin", program, program, "127.0.0.1:9", s)
		line := strings.Join(c.Args, " ")
		if strings.Contains(line, "hidden") {
			t.Errorf("%s: %s", program, line)
		}
		if !strings.Contains(line, "-http=127.0.0.1:9") || !strings.Contains(line, "-kafka=kafka://127.0.0.1:1") || c.Address != "http://127.0.0.1:9" {
			t.Errorf("%s: %s", program, line)
		}
	}
	c := d.serviceCommand("/bin", "outbox-relay", "outbox-relay", "h:1", s)
	if len(c.Env) != 1 || c.Env[0] != "OUTBOX_RELAY_POSTGRES=postgres://weir:hidden@127.0.0.1:3/weir" {
		t.Errorf("environment %v", c.Env)
	}
	c = d.serviceCommand("/bin", "admission", "admission-2", "h:1", s)
	for _, want := range []string{"-redis=redis://127.0.0.1:2/0", "-hmac-secret-file=/w/secrets/hmac.key", "-token-key-file=/w/secrets/token_ed25519.pem"} {
		if !strings.Contains(strings.Join(c.Args, " "), want) {
			t.Errorf("no %s in %v", want, c.Args)
		}
	}
	if c.LogFile != "/w/log/admission-2.log" {
		t.Error(c.LogFile)
	}
}

// A service restarts when a part has moved, and not because it got another port itself.
func TestSettings(t *testing.T) {
	d := Dir("/w")
	at := func(listen, postgres string) string {
		return settings(d.serviceCommand("/bin", "admission", "admission", listen, parts(postgres)))
	}
	if at("h:1", "postgres://u:p@h:3/d") != at("h:2", "postgres://u:p@h:3/d") {
		t.Error("its own port counts")
	}
	if at("h:1", "postgres://u:p@h:3/d") == at("h:1", "postgres://u:p@h:4/d") {
		t.Error("a moved part does not count")
	}
}

// Only admission speaks gRPC; each of its copies has a port of its own there.
func TestGRPCPorts(t *testing.T) {
	for _, w := range (Config{Replicas: map[string]int{"admission": 2}}).copies(nil) {
		want := map[string]int{"admission-1": portGRPC, "admission-2": portGRPC + 1}[w.name]
		if w.grpc != want {
			t.Errorf("%s: %d, want %d", w.name, w.grpc, want)
		}
	}
	d := save(t, State{Services: []Service{{Name: "admission", Program: "admission", GRPC: "127.0.0.1:18200", Part: part.Part{Address: "http://127.0.0.1:18080"}}}})
	env, err := d.Env()
	if err != nil || env["WEIR_GRPC"] != "127.0.0.1:18200" || env["WEIR_URL"] != "http://127.0.0.1:18080" {
		t.Errorf("%v, %v", env, err)
	}
}

func TestCopies(t *testing.T) {
	names := func(c Config, before []Service) string {
		var out []string
		for _, x := range c.copies(before) {
			if x.program == "admission" || x.program == "breaker" {
				out = append(out, x.name)
			}
		}
		return strings.Join(out, " ")
	}
	three := []Service{{Name: "admission-1", Program: "admission"}, {Name: "admission-2", Program: "admission"}, {Name: "admission-3", Program: "admission"}}
	for _, c := range []struct {
		asked  map[string]int
		before []Service
		want   string
	}{
		{nil, nil, "breaker admission"},
		{map[string]int{"admission": 3}, nil, "breaker admission-1 admission-2 admission-3"},
		{nil, three, "breaker admission-1 admission-2 admission-3"}, // up again leaves the number as it was
		{map[string]int{"admission": 1}, three, "breaker admission"},
		{map[string]int{"breaker": 2}, three, "breaker-1 breaker-2 admission-1 admission-2 admission-3"},
	} {
		if got := names(Config{Replicas: c.asked}, c.before); got != c.want {
			t.Errorf("%v after %d: %s, want %s", c.asked, len(c.before), got, c.want)
		}
	}
}

// The number of copies shrinks: those that are no longer named end, and only those.
func TestRetire(t *testing.T) {
	keep, drop := sleeper(t, "admission", ""), sleeper(t, "admission", "")
	s := State{Services: []Service{{Name: "breaker", Program: "breaker", Part: keep}, {Name: "admission-2", Program: "admission", Part: drop}}}
	c := Config{Dir: Dir(t.TempDir())}
	if err := c.retire(&s, []copyOf{{program: "breaker", name: "breaker"}}); err != nil {
		t.Fatal(err)
	}
	if len(s.Services) != 1 || !keep.Alive() || drop.Alive() {
		t.Errorf("%+v, alive %v %v", s.Services, keep.Alive(), drop.Alive())
	}
	if loaded, err := c.Dir.Load(); err != nil || len(loaded.Services) != 1 {
		t.Errorf("%+v, %v", loaded, err)
	}
}

func TestUpRefusesBeforeItStartsAnything(t *testing.T) {
	bin := t.TempDir()
	say := func(string, ...any) {}
	for name, c := range map[string]struct {
		config Config
		ready  bool // the programs are there
		want   error
		says   string
	}{
		"no programs":                            {Config{}, false, ErrMisuse, "make build"},
		"unknown service":                        {Config{Replicas: map[string]int{"x": 1}}, true, ErrMisuse, "x=1"},
		"own Redis where there is one with data": {Config{External: map[string]string{"redis": "redis://h:1"}}, true, ErrMisuse, "own redis"},
		"data gone":                              {Config{}, true, ErrLost, "data of postgres are gone"},
	} {
		t.Run(name, func(t *testing.T) {
			d := save(t, State{Parts: []Part{
				{"kafka", part.Part{Kind: KindExternal, Address: "kafka://127.0.0.1:1"}}, {"redis", part.Part{Kind: part.KindRedis, Address: "redis://127.0.0.1:1/0"}},
				{"postgres", part.Part{Kind: part.KindPostgres, Address: "postgres://127.0.0.1:1/weir"}},
			}})
			c.config.Dir, c.config.Bin, c.config.Say = d, bin, say
			if c.ready {
				for _, program := range Programs() {
					if err := os.WriteFile(filepath.Join(bin, program), nil, 0o700); err != nil {
						t.Fatal(err)
					}
				}
			} else {
				c.config.Bin = t.TempDir()
			}
			if _, err := Up(t.Context(), c.config); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %q", err, c.says)
			}
		})
	}
}

// Goal: a recovery of the budget store is known by its code, whatever the words are.
func TestRecoveryIsKnownByItsCode(t *testing.T) {
	for body, want := range map[string]bool{
		`{"status":"not ready","not_ready":{"epoch":"in other words"},"codes":{"epoch":"budget_store_recovering"}}`: true,
		`{"status":"not ready","not_ready":{"epoch":"counters are being made anew"}}`:                               false,
		`{"status":"not ready","not_ready":{"x":"y"},"codes":{"x":"something_else"}}`:                               false,
		`no JSON`: false,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, body)
		}))
		v := Service{Name: "admission"}
		v.Address = server.URL
		err := v.Readiness(t.Context())
		server.Close()
		if err == nil || !strings.Contains(err.Error(), body) {
			t.Errorf("%s: %v", body, err)
		}
		if got := recovering([]error{errors.New("another"), err}); (got != nil) != want {
			t.Errorf("%s: %v", body, got)
		}
	}
}
