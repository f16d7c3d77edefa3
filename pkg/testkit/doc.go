// Package testkit gives tests the real servers that Weir runs on: each test gets a Kafka, Redis, Postgres or
// ClickHouse of its own, or a database of its own in one that the test binary shares. It also compares texts with golden
// files.
//
// It owns starting, isolating and ending the servers. What one lacks is installed as `weir up` would; a server that cannot
// be had fails the test, it is never skipped. Only tests and the load test import it.
//
// Everything but Kafka takes seconds to start and needs programs of the machine: tests that use those carry the build
// tag integration.
package testkit

import (
	"context"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/embedded/install"
	"github.com/weir-project/weir/pkg/embedded/part"
)

// startTimeout bounds one start, a first download included.
const startTimeout = 5 * time.Minute

// startContext is a context for starting something, bounded and ended with the test.
func startContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	t.Cleanup(cancel)
	return ctx
}

// check ends the test where something that it needs cannot be had.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("testkit: %v", err)
	}
}

// Installer is the one that `weir up` uses, with the same cache.
func Installer(t testing.TB) *install.Installer {
	t.Helper()
	i, err := install.New("", nil)
	check(t, err)
	return i
}

// stopAtEnd ends a part with the test; its data go with the test's folder.
func stopAtEnd(t testing.TB, p *part.Part) {
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the log of %s:\n%s", p.Kind, part.Tail(p.LogFile, 20))
		}
		if err := p.Kill(); err != nil {
			t.Errorf("testkit: %v", err)
		}
	})
}
