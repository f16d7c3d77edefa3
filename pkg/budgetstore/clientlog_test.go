package budgetstore

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// What the Redis client says about a server that is away goes to the log at debug: an operator who asked for more than that
// sees the calls that fail, not a line for each attempt to connect.
func TestClientLog(t *testing.T) {
	for level, want := range map[slog.Level]bool{slog.LevelDebug: true, slog.LevelInfo: false} {
		var out bytes.Buffer
		log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: level}))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		// Port 1 is nobody's.
		if s, err := Open(ctx, "redis://127.0.0.1:1?dial_timeout=1s&max_retries=-1", Options{Log: log}); err == nil {
			t.Fatal("a Redis at port 1", s.Close())
		}
		if got := strings.Contains(out.String(), "failed to dial"); got != want {
			t.Errorf("at %s: said %v, want %v: %s", level, got, want, out.String())
		}
	}
}
