package instance

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weir-project/weir/pkg/embedded/kafka"
	"github.com/weir-project/weir/pkg/embedded/redis"
)

// probeTimeout is after how long a part counts as not answering.
const probeTimeout = 2 * time.Second

// probe asks a part of ours for a sign of life in its own protocol: a stopped process still accepts connections.
func (p Part) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	u, err := url.Parse(p.Address)
	if err != nil {
		return fmt.Errorf("address of %s: %w", p.Name, err)
	}
	switch p.Name {
	case "kafka":
		return kafka.Ping(ctx, u.Host)
	case "redis":
		return redis.Ping(ctx, u.Host)
	case "postgres":
		conn, err := pgx.Connect(ctx, p.Address)
		if err != nil {
			return err
		}
		return conn.Close(ctx)
	default:
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+u.Host+"/ping", nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		return resp.Body.Close()
	}
}
