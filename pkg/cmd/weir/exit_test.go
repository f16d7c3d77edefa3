package main

import (
	"embed"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/weir-project/weir/pkg/gen/migrations"
)

// call is one use of the command with the exit code and a word of the error that it must give.
type call struct {
	args string
	code int
	says string
}

// withoutInstance holds every command: what is used wrongly says so before it misses an instance.
func withoutInstance() []call {
	return append(callsOfKill(), []call{
		{"", 0, ""}, {"help", 0, ""}, {"--help", 0, ""}, {"up --help", 0, ""},
		{"stauts", 2, "did you mean status?"}, {"--jsn", 2, "unknown flag: --jsn"},
		{"up extra", 2, "usage: weir up"}, {"up --replicas admission", 2, "SERVICE=N"}, {"up --replicas admission=0", 2, "SERVICE=N"},
		{"up --replicas admision=2", 2, "the services are breaker, budget-aggregator"}, {"up --replicas breaker=21", 2, "at most 20"},
		{"down", 1, "weir up"}, {"down x", 2, "usage"},
		{"status", 3, "no instance in .weir"}, {"status x", 2, "usage"},
		{"env", 3, "no instance"}, {"env x", 2, "usage"},
		{"init", 2, "--print"}, {"init --print --replication 0", 2, "1 to 15"}, {"init --redis redis://h:1", 2, "--postgres"},
		{"init --kafka nonsense", 2, "kafka address"}, {"init --kafka kafka://127.0.0.1:1", 3, "does not answer"}, {"init x", 2, "usage"},
		{"tenants", 0, ""}, {"tenants aply", 2, "did you mean apply?"}, {"tenants apply", 2, "usage: weir tenants apply FILE"},
		{"tenants apply nofile", 2, "no such file"}, {"tenants apply bad.yaml", 2, "line 3"}, {"tenants apply good.yaml", 3, "no instance"},
		{"tenants show", 3, "no instance"},
		{"keys", 0, ""}, {"keys create", 2, "--tenant"}, {"keys create --tenant a", 3, "no instance"}, {"keys revoke", 2, "usage: weir keys revoke KEY-ID"},
		{"keys list", 3, "no instance"}, {"keys list x", 2, "usage"}, {"keys list --tenant a", 3, "no instance"},
		{"keys revoke k", 3, "no instance"}, {"keys revok k", 2, "did you mean revoke?"},
		{"prices", 0, ""}, {"prices import", 2, "usage"}, {"prices import nofile", 2, "no such file"}, {"prices import bad.yaml", 2, "not a price file"},
		{"prices import --effective-from yesterday prices.json", 2, "--effective-from"}, {"prices import prices.json", 3, "no instance"},
		{"prices diff prices.json", 3, "no instance"}, {"prices diff", 2, "usage"}, {"prices show", 3, "no instance"},
		{"price", 2, "--provider and --prices"}, {"price --provider openai --prices nofile", 2, "no such file"},
		{"price --provider openai --prices prices.json --at noon", 2, "--at"}, {"price --provider openai --prices prices.json", 2, "usage"},
		{"price x", 2, "usage"},
		{"bill", 2, "--tenant"}, {"bill --tenant a --month soon", 2, "YYYY-MM"}, {"bill --tenant a --by colour", 2, "--by"}, {"bill --tenant a", 3, "no instance"},
		{"find", 2, "usage: weir find EVENT-ID"}, {"find e", 3, "no instance"},
		{"tree", 2, "usage: weir tree ROOT"}, {"tree r", 3, "no instance"},
		{"audit", 3, "no instance"}, {"audit x", 2, "usage"}, {"audit --wait soon", 2, "--wait"},
		{"dlq", 0, ""}, {"dlq list", 3, "no instance"}, {"dlq list x", 2, "usage"}, {"dlq show", 2, "usage"}, {"dlq show x", 2, "partition:offset"},
		{"dlq show 0:0", 3, "no instance"}, {"dlq replay", 2, "usage"}, {"dlq replay 0:0 99:0", 2, "partition:offset"}, {"dlq replay 0:0", 3, "no instance"},
		{"part nonsense", 2, ""},
	}...)
}

func TestExitCodesWithoutAnInstance(t *testing.T) {
	alone(t)
	file(t, "bad.yaml", "tenants:\n  - id: a\n    celings: {}\n")
	file(t, "good.yaml", "tenants: [{id: a, limits: {concurrency: 1}, ceilings: {minute_usd: 1, day_usd: 1, month_usd: 1}}]")
	file(t, "prices.json", `{"gpt-4o": {"litellm_provider": "openai", "mode": "chat", "input_cost_per_token": 2.5e-06, "output_cost_per_token": 1e-05}}`)
	for _, c := range withoutInstance() {
		t.Run(c.args, func(t *testing.T) {
			a := weir(t, "", strings.Fields(c.args)...)
			if a.code != c.code || !strings.Contains(a.err, c.says) {
				t.Errorf("exit %d, %q; want %d with %q", a.code, a.err, c.code, c.says)
			}
			if a.code != 0 && strings.Count(strings.TrimSpace(a.err), "\n") > 3 {
				t.Errorf("a long error:\n%s", a.err)
			}
		})
	}
	// None of that may leave anything behind: a folder .weir would look like an instance.
	if entries, err := os.ReadDir("."); err != nil || len(entries) != 3 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

// Every command that exists is in the table above.
func TestEveryCommandHasExitCodes(t *testing.T) {
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		path := strings.TrimPrefix(strings.TrimPrefix(c.CommandPath(), "weir"), " ")
		if c.Runnable() && !slices.ContainsFunc(withoutInstance(), func(x call) bool { return x.args == path || strings.HasPrefix(x.args, path+" ") }) {
			t.Errorf("no exit code of %q is tested", path)
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(newRoot(newApp()))
}

// --json and --dir stand before or after arguments.
func TestGlobalFlagsAnywhere(t *testing.T) {
	alone(t)
	for _, args := range []string{"--dir D --json status", "status --json --dir D", "--json status --dir=D", "find --dir D e --json", "--dir D find e"} {
		if a := weir(t, "", strings.Fields(args)...); a.code != 3 || !strings.Contains(a.err, "no instance in D") {
			t.Errorf("%s: %+v", args, a)
		}
	}
}

// An instance that is named on the command line goes before the address of another one in the environment.
func TestDirGoesBeforeTheEnvironment(t *testing.T) {
	broker(t)
	if a := weir(t, "", "tenants", "show"); a.code != 0 {
		t.Errorf("by WEIR_KAFKA: %+v", a)
	}
	if a := weir(t, "", "tenants", "show", "--dir", "D"); a.code != 3 || !strings.Contains(a.err, "no instance in D") {
		t.Errorf("--dir: %+v", a)
	}
}

// A store that does not answer is a dependency that is away, whichever it is; a bad address is a mistake.
func TestStoresAway(t *testing.T) {
	broker(t)
	const away = "127.0.0.1:1"
	ill := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no memory", http.StatusInternalServerError)
	}))
	t.Cleanup(ill.Close)
	t.Setenv("WEIR_REDIS", "redis://"+away)
	t.Setenv("WEIR_POSTGRES", "postgres://"+away+"/x?connect_timeout=2")
	for _, address := range []struct {
		clickhouse string
		code       int
		says       string
	}{{"http://" + away + "/weir", 3, "gave no answer"}, {ill.URL + "/weir", 3, "gave no answer"}, {"nonsense", 2, "address"}} {
		t.Setenv("WEIR_CLICKHOUSE", address.clickhouse)
		for _, args := range []string{"bill --tenant a", "find e", "tree x", "audit"} {
			if a := weir(t, "", strings.Fields(args)...); a.code != address.code || !strings.Contains(a.err, "clickhouse "+address.says) {
				t.Errorf("%s with ClickHouse at %s: %+v", args, address.clickhouse, a)
			}
		}
	}
	good := file(t, "good.yaml", "tenants: ["+oneTenant+"]")
	if a := weir(t, "", "tenants", "apply", good); a.code != 3 || !strings.Contains(a.err, "postgres gave no answer") {
		t.Errorf("apply without Postgres: %+v", a)
	}
	t.Setenv("WEIR_KAFKA", "kafka://"+away)
	for _, args := range []string{"tenants show", "keys revoke k", "prices show", "dlq list", "audit"} {
		if a := weir(t, "", strings.Fields(args)...); a.code != 3 || !strings.Contains(a.err, "does not answer") {
			t.Errorf("%s without Kafka: %+v", args, a)
		}
	}
}

func TestGoldenHelp(t *testing.T) {
	root := here(t)
	alone(t)
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Hidden || c.Name() == "help" {
			return
		}
		path := strings.Fields(c.CommandPath())
		a := weir(t, "", append(path[1:], "--help")...)
		if a.code != 0 {
			t.Errorf("%v --help: %+v", path, a)
		}
		golden(t, root, "help/"+strings.Join(path, "_")+".txt", a.out)
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(newRoot(newApp()))
}

func TestGoldenInitPrint(t *testing.T) {
	root := here(t)
	alone(t)
	a := weir(t, "", "init", "--print", "--replication", "3")
	if a.code != 0 {
		t.Fatalf("%+v", a)
	}
	// The migrations have owners and tests of their own: here it counts that each is printed whole.
	out := a.out
	for _, files := range []embed.FS{migrations.Postgres, migrations.ClickHouse} {
		err := fs.WalkDir(files, ".", func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".up.sql") {
				return err
			}
			b, err := files.ReadFile(path)
			text := strings.TrimSpace(string(b))
			if err == nil && !strings.Contains(out, text) {
				t.Errorf("%s is not printed whole", path)
			}
			out = strings.ReplaceAll(out, text, "(its text)")
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	golden(t, root, "init_print.txt", out)
}
