package clickhouse

import "context"

// Select is Query with arguments ({name:Type} or ? placeholders as the driver has them): never put a value of a user's
// into the statement itself.
func (c *Client) Select(ctx context.Context, statement string, args ...any) ([][]string, error) {
	return c.query(ctx, statement, args...)
}
