package costattributor_test

import (
	"flag"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-project/weir/pkg/config"
	"github.com/weir-project/weir/pkg/testkit"
	"github.com/weir-project/weir/services/cost-attributor"
)

func load(args []string, env map[string]string) (int, bool, string, *costattributor.Config) {
	set := config.New("cost-attributor", func(k string) (string, bool) { v, ok := env[k]; return v, ok })
	cfg := costattributor.Define(set)
	var out strings.Builder
	code, run := set.Load(args, &out, &out)
	return code, run, out.String(), cfg
}

// TestConfig: good ones are filled in from flags and environment, bad ones name the flag and never show a password.
func TestConfig(t *testing.T) {
	env := map[string]string{"COST_ATTRIBUTOR_KAFKA": "kafka://k:1", "COST_ATTRIBUTOR_CLICKHOUSE": "http://h:1/weir", "COST_ATTRIBUTOR_HMAC_SECRET": "a-secret-of-at-least-thirty-two-bytes"}
	_, run, out, cfg := load([]string{"-sink-linger", "2h"}, env)
	if !run || cfg.SinkLinger.Hours() != 2 || cfg.Secret.IsZero() || cfg.MaxIDs != 20_000_000 {
		t.Fatalf("%v %s %+v", run, out, cfg)
	}
	for name, args := range map[string][]string{
		"-kafka": {"-kafka", "http://x"}, "-sink-linger": {"-sink-linger", "0s"}, "-max-ids": {"-max-ids", "0"},
		"-session": {"-session", "1h"}, "-log-level": {"-log-level", "loud"},
	} {
		code, run, out, _ := load(append(args, "-check-config"), env)
		if code != 2 || run || !strings.Contains(out, name) || strings.Contains(out, "thirty") {
			t.Errorf("%s: %d %s", name, code, out)
		}
	}
	if code, run, out, _ := load([]string{"-check-config"}, env); code != 0 || run || strings.Contains(out, "thirty") {
		t.Errorf("check-config: %d %s", code, out)
	}
	if code, _, out, _ := load(nil, nil); code != 2 || !strings.Contains(out, "-hmac-secret-file") {
		t.Errorf("nothing given: %d %s", code, out)
	}
}

var update = flag.Bool("update", false, "rewrite golden files")

// TestHelp compares -help with the golden file: a flag is an interface, and a change of one is to be seen in the diff.
func TestHelp(t *testing.T) {
	_, _, out, _ := load([]string{"-help"}, nil)
	testkit.Golden(t, *update, filepath.Join("testdata", "help.txt"), out)
}
