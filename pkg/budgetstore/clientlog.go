package budgetstore

import (
	"context"
	"fmt"
	"log/slog"
)

// clientLog takes what the Redis client would print to standard error.
type clientLog struct{ log *slog.Logger }

// Printf is called by the client, also concurrently.
func (c clientLog) Printf(ctx context.Context, format string, args ...any) {
	if c.log.Enabled(ctx, slog.LevelDebug) {
		c.log.DebugContext(ctx, "redis client", "says", fmt.Sprintf(format, args...))
	}
}
