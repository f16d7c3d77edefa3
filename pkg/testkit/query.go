package testkit

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// QueryClickHouse posts one statement, as curl would, and returns the body of the answer. A path in the address names
// the database.
func QueryClickHouse(ctx context.Context, address, sql string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", fmt.Errorf("clickhouse address: %w", err)
	}
	if database := strings.Trim(u.Path, "/"); database != "" {
		q := u.Query()
		q.Set("database", database)
		u.Path, u.RawQuery = "/", q.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), strings.NewReader(sql))
	if err != nil {
		return "", fmt.Errorf("clickhouse query: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", fmt.Errorf("clickhouse query: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", fmt.Errorf("clickhouse query: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("clickhouse query: status %d: %s", resp.StatusCode, strings.TrimSpace(string(body)))
	}
	return string(body), nil
}
