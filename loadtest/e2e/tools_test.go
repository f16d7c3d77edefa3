//go:build integration

package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// run starts a program in dir with the environment and returns its standard output; it must exit with code.
func run(t *testing.T, code int, dir string, env []string, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = dir, env, 5*time.Second
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != code {
		t.Fatalf("%s %v: %v, want exit %d\n%s%s", name, args, err, code, out, stderr.String())
	}
	return string(out)
}

// kcat makes sure that kcat is on the machine, as apt brings it.
func kcat(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("kcat"); err == nil {
		return
	}
	install := []string{"apt-get", "-o", "DPkg::Lock::Timeout=300", "install", "-y", "--no-install-recommends", "kcat"}
	if os.Geteuid() != 0 {
		install = append([]string{"sudo", "-n"}, install...)
	}
	env := append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	if exec.Command("apt-cache", "show", "kcat").Run() != nil { // the lists of packages were never fetched
		update := append(append([]string(nil), install[:len(install)-8]...), "apt-get", "update")
		run(t, 0, root, env, update[0], update[1:]...)
	}
	run(t, 0, root, env, install[0], install[1:]...)
}

// cacheDir is where tools are kept between runs.
func cacheDir(t *testing.T) string {
	t.Helper()
	base, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(base, "weir", "e2e")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// digest names what a file says.
func digest(t *testing.T, file string) string {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:6])
}

// python is an interpreter that has what the requirements file names.
func python(t *testing.T, requirements string) string {
	t.Helper()
	dir := filepath.Join(cacheDir(t), "venv-"+digest(t, requirements))
	program := filepath.Join(dir, "bin", "python3")
	if exec.Command(program, "-c", "import confluent_kafka").Run() == nil {
		return program
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	run(t, 0, root, os.Environ(), "python3", "-m", "venv", dir)
	run(t, 0, root, os.Environ(), program, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", requirements)
	return program
}

// npm is a copy of a folder with its packages installed, as its lockfile pins them.
func npm(t *testing.T, folder string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), filepath.Base(folder))
	if err := os.CopyFS(dir, os.DirFS(folder)); err != nil {
		t.Fatal(err)
	}
	for _, built := range []string{"node_modules", "dist"} {
		if err := os.RemoveAll(filepath.Join(dir, built)); err != nil {
			t.Fatal(err)
		}
	}
	run(t, 0, dir, os.Environ(), "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline")
	return dir
}
