package outboxrelay_test

import (
	"flag"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-project/weir/pkg/config"
	"github.com/weir-project/weir/pkg/testkit"
	outboxrelay "github.com/weir-project/weir/services/outbox-relay"
)

func load(args []string, env map[string]string) (int, bool, string, *outboxrelay.Config) {
	set := config.New("outbox-relay", func(k string) (string, bool) { v, ok := env[k]; return v, ok })
	cfg := outboxrelay.Define(set)
	var out strings.Builder
	code, run := set.Load(args, &out, &out)
	return code, run, out.String(), cfg
}

// TestConfig: good ones are filled in from flags and environment, bad ones name the flag and never show a password.
func TestConfig(t *testing.T) {
	env := map[string]string{"OUTBOX_RELAY_KAFKA": "kafka://k:1", "OUTBOX_RELAY_POSTGRES": "postgres://u:secret@h/d"}
	_, run, out, cfg := load([]string{"-poll", "40ms"}, env)
	if !run || cfg.Poll.Milliseconds() != 40 || cfg.Postgres != env["OUTBOX_RELAY_POSTGRES"] || cfg.BatchRows != 2000 {
		t.Fatalf("%v %s %+v", run, out, cfg)
	}
	for name, args := range map[string][]string{
		"-kafka": {"-kafka", "http://x"}, "-poll": {"-poll", "0"}, "-rotate": {"-rotate", "-1s"}, "-batch-rows": {"-batch-rows", "0"},
		"-batch-bytes": {"-batch-bytes", "0"}, "-rotate-rows": {"-rotate-rows", "0"}, "-grace": {"-grace", "0s"}, "-log-level": {"-log-level", "loud"},
	} {
		code, run, out, _ := load(append(args, "-check-config"), env)
		if code != 2 || run || !strings.Contains(out, name) || strings.Contains(out, "secret") {
			t.Errorf("%s: %d %s", name, code, out)
		}
	}
	if code, run, out, _ := load([]string{"-check-config"}, env); code != 0 || run || strings.Contains(out, "secret") {
		t.Errorf("check-config: %d %s", code, out)
	}
	if code, _, out, _ := load(nil, nil); code != 2 || !strings.Contains(out, "-postgres") {
		t.Errorf("nothing given: %d %s", code, out)
	}
}

var update = flag.Bool("update", false, "rewrite golden files")

// TestHelp compares -help with the golden file: a flag is an interface, and a change of one is to be seen in the diff.
func TestHelp(t *testing.T) {
	_, _, out, _ := load([]string{"-help"}, nil)
	testkit.Golden(t, *update, filepath.Join("testdata", "help.txt"), out)
}
