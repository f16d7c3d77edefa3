package budgetaggregator_test

import (
	"flag"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-project/weir/pkg/config"
	"github.com/weir-project/weir/pkg/testkit"
	budgetaggregator "github.com/weir-project/weir/services/budget-aggregator"
)

func load(args []string, env map[string]string) (int, bool, string, *budgetaggregator.Config) {
	set := config.New("budget-aggregator", func(k string) (string, bool) { v, ok := env[k]; return v, ok })
	cfg := budgetaggregator.Define(set)
	var out strings.Builder
	code, run := set.Load(args, &out, &out)
	return code, run, out.String(), cfg
}

// TestConfig: good ones are filled in from flags and environment, bad ones name the flag and never show a password.
func TestConfig(t *testing.T) {
	env := map[string]string{"BUDGET_AGGREGATOR_KAFKA": "kafka://k:1", "BUDGET_AGGREGATOR_CLICKHOUSE": "http://u:secret@h/weir"}
	_, run, out, cfg := load([]string{"-read-along", "40ms"}, env)
	if !run || cfg.ReadAlong.Milliseconds() != 40 || cfg.ClickHouse != env["BUDGET_AGGREGATOR_CLICKHOUSE"] || cfg.MaxWindows != 5_000_000 {
		t.Fatalf("%v %s %+v", run, out, cfg)
	}
	for name, args := range map[string][]string{
		"-kafka": {"-kafka", "http://x"}, "-max-windows": {"-max-windows", "0"}, "-read-along": {"-read-along", "0s"}, "-sink-batch": {"-sink-batch", "0"},
		"-sink-linger": {"-sink-linger", "-1s"}, "-session": {"-session", "1h"}, "-log-level": {"-log-level", "loud"},
	} {
		code, run, out, _ := load(append(args, "-check-config"), env)
		if code != 2 || run || !strings.Contains(out, name) || strings.Contains(out, "secret") {
			t.Errorf("%s: %d %s", name, code, out)
		}
	}
	if code, run, out, _ := load([]string{"-check-config"}, env); code != 0 || run || strings.Contains(out, "secret") {
		t.Errorf("check-config: %d %s", code, out)
	}
	if code, _, out, _ := load(nil, nil); code != 2 || !strings.Contains(out, "-clickhouse") {
		t.Errorf("nothing given: %d %s", code, out)
	}
}

var update = flag.Bool("update", false, "rewrite golden files")

// TestHelp compares -help with the golden file: a flag is an interface, and a change of one is to be seen in the diff.
func TestHelp(t *testing.T) {
	_, _, out, _ := load([]string{"-help"}, nil)
	testkit.Golden(t, *update, filepath.Join("testdata", "help.txt"), out)
}
