package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

// Goal: whoever waits for the books is told for what, and the wait ends when nothing moves.
func TestAWaitIsSaid(t *testing.T) {
	var said []string
	moves := func(context.Context) ([]string, error) {
		if len(said) > 0 {
			return nil, nil
		}
		return []string{"the counters of epoch 7 are being made anew in Redis", "consumers are 3 records behind"}, nil
	}
	left, err := settle(t.Context(), 30*time.Second, moves, func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) })
	if err != nil || left != nil || len(said) != 1 || !strings.Contains(said[0], "at most 30s: the counters of epoch 7 are being made anew in Redis; consumers") {
		t.Errorf("%v, %v, said %q", left, err, said)
	}
	still := []string{"x"}
	left, err = settle(t.Context(), time.Millisecond, func(context.Context) ([]string, error) { return still, nil }, func(string, ...any) { t.Error("said at once") })
	if err != nil || len(left) != 1 {
		t.Errorf("what moved to the end: %v, %v", left, err)
	}
}
