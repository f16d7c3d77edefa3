package embedded_test

import (
	"testing"

	"github.com/weir-project/weir/pkg/embedded"
)

func TestPartCommandRefusesWrongUse(t *testing.T) {
	for _, args := range [][]string{nil, {"redis", "--dir", t.TempDir(), "--port", "1"}, {"kafka"}, {"kafka", "--dir", t.TempDir()}, {"kafka", "--nonsense"}, {"clickhouse", "--dir", t.TempDir(), "--port", "1", "more"}} {
		if code := embedded.PartCommand(args); code != 2 {
			t.Errorf("%q: exit code %d, want 2", args, code)
		}
	}
}
