package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-project/weir/pkg/instance"
)

// Goal: who exported WEIR_DIR in one folder and asks for `down` in another is told which instance is meant, and that it is not the
// one that he sees. Where it is the same, or --dir says which, there is nothing to warn of.
func TestDownOfAnotherFolder(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	for _, d := range []string{first, second} {
		if err := os.Mkdir(filepath.Join(d, usualDir), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := instance.Dir(filepath.Join(d, usualDir)).Save(instance.State{}); err != nil {
			t.Fatal(err)
		}
	}
	named := filepath.Join(first, usualDir)
	t.Setenv("WEIR_DIR", named)
	for _, in := range []struct {
		folder, args string
		warns        bool
	}{
		{second, "down", true}, {first, "down", false}, {t.TempDir(), "down", false}, {second, "down --dir " + usualDir, false},
		{second, "init --redis redis://h:1 --postgres ://", true}, {second, "up --kafka none", true},
	} {
		t.Chdir(in.folder)
		a := weir(t, "", strings.Fields(in.args)...)
		if warns := strings.Contains(a.err, "WEIR_DIR names "+named); warns != in.warns {
			t.Errorf("%s in %s: %+v", in.args, in.folder, a)
		}
		if in.args == "down" && !strings.Contains(a.err, "of the instance in "+named) {
			t.Errorf("the folder is not named: %+v", a)
		}
	}
	if a := weir(t, "", "status"); !strings.Contains(a.out, "instance in "+named) {
		t.Errorf("status: %+v", a)
	}
}
