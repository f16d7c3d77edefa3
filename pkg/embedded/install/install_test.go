package install

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

func newInstaller(t *testing.T, cache string) *Installer {
	t.Helper()
	i, err := New(cache, nil)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func TestTheErrorNamesAllFourAddresses(t *testing.T) {
	text := (&UnsupportedError{Missing: "redis-server", Reason: "there is no apt-get here"}).Error()
	for _, want := range []string{"redis-server", "no apt-get", "--kafka ", "--redis ", "--postgres ", "--clickhouse "} {
		if !strings.Contains(text, want) {
			t.Errorf("%q lacks %q", text, want)
		}
	}
}

func TestWithoutAptTheErrorIsTyped(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	i := newInstaller(t, t.TempDir())
	err := i.aptInstall(context.Background(), "redis-server", 0, "redis-tools")
	var unsupported *UnsupportedError
	if !errors.As(err, &unsupported) {
		t.Errorf("got %v", err)
	}
}

func TestManyAtOnceInstallOnce(t *testing.T) {
	cache := t.TempDir()
	var fills atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		i := newInstaller(t, cache)
		all.Go(func() {
			err := i.exclusive(context.Background(), func() bool { return exists(filepath.Join(cache, "thing")) }, func() error {
				return i.staged("thing", func(dir string) error {
					fills.Add(1)
					return os.WriteFile(filepath.Join(dir, "file"), []byte("x"), 0o644)
				})
			})
			if err != nil || !exists(filepath.Join(cache, "thing", "file")) {
				t.Errorf("not there: %v", err)
			}
		})
	}
	all.Wait()
	if n := fills.Load(); n != 1 {
		t.Errorf("brought %d times", n)
	}
}

func TestAFailedDownloadLeavesNothing(t *testing.T) {
	cache := t.TempDir()
	i := newInstaller(t, cache)
	if err := i.staged("thing", func(string) error { return errors.New("no network") }); err == nil {
		t.Fatal("no error")
	}
	if left, _ := os.ReadDir(cache); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// archive makes a .tgz with one member and gives its checksum.
func archive(t *testing.T, member, content string) (file, sum string) {
	t.Helper()
	var buf bytes.Buffer
	gz := gzip.NewWriter(&buf)
	w := tar.NewWriter(gz)
	if err := w.WriteHeader(&tar.Header{Name: member, Mode: 0o755, Size: int64(len(content))}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(content)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Close(), gz.Close()); err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "a.tgz")
	if err := os.WriteFile(file, buf.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	h := sha512.Sum512(buf.Bytes())
	return file, base64.StdEncoding.EncodeToString(h[:])
}

func TestUnpackChecksWhatItGot(t *testing.T) {
	file, sum := archive(t, "package/libchdb.so", "engine")
	target := filepath.Join(t.TempDir(), "libchdb.so")
	if err := unpack(file, chdbSHA512, "package/libchdb.so", target); err == nil || exists(target) {
		t.Errorf("a wrong checksum was accepted: %v", err)
	}
	if err := unpack(file, sum, "package/other", target); err == nil || exists(target) {
		t.Errorf("a missing member: %v", err)
	}
	if err := unpack(file, sum, "package/libchdb.so", target); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(target); string(b) != "engine" {
		t.Errorf("unpacked %q", b)
	}
}

func TestAnOldClickHouseIsNotUsed(t *testing.T) {
	bin, cache := t.TempDir(), t.TempDir()
	t.Setenv("PATH", bin)
	if err := os.WriteFile(filepath.Join(bin, "clickhouse"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	library := filepath.Join(cache, "chdb-"+chdbVersion, chdbFile)
	if err := os.MkdirAll(filepath.Dir(library), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(library, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	for version, want := range map[string]Engine{
		"ClickHouse local version 18.16.1.":                  {Library: library},
		"ClickHouse local version 26.5.1.1 (official build)": {Binary: filepath.Join(bin, "clickhouse"), Library: library},
	} {
		i := newInstaller(t, cache)
		i.run = func(context.Context, string, ...string) (string, error) { return version, nil }
		if got, err := i.ClickHouse(context.Background()); err != nil || got != want {
			t.Errorf("%s: %+v, %v", version, got, err)
		}
	}
}

// TestPostgresMakesNoCluster looks at the commands: the file that forbids the main cluster is there before apt-get
// installs, and gone afterwards, also when that fails.
func TestPostgresMakesNoCluster(t *testing.T) {
	bin := t.TempDir()
	t.Setenv("PATH", bin)
	for _, name := range []string{"apt-get", "sudo"} { // whoever runs this test
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, failing := range []bool{false, true} {
		var steps []string
		i := newInstaller(t, t.TempDir())
		i.run = func(_ context.Context, name string, args ...string) (string, error) {
			line := name + " " + strings.Join(args, " ")
			switch {
			case strings.Contains(line, "create_main_cluster = false"):
				steps = append(steps, "forbid")
			case strings.Contains(line, "rm -f"):
				steps = append(steps, "allow")
			case strings.Contains(line, "apt-get") && strings.Contains(line, " install "):
				steps = append(steps, "install")
				if failing {
					return "", errors.New("no network")
				}
			}
			return "", nil
		}
		err := i.aptPostgres(context.Background())
		want := "forbid install allow"
		if failing {
			want = "forbid install install allow" // the second time with fresh package lists
		}
		if got := strings.Join(steps, " "); got != want || (err != nil) != failing {
			t.Errorf("steps %q, want %q; %v", got, want, err)
		}
	}
}
