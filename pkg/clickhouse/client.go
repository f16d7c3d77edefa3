package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"reflect"
	"strings"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// defaultDatabase is where the tables are unless the URL says otherwise.
const defaultDatabase = "weir"

// Client is a pool of connections to one ClickHouse, usually one statement at a time on each. Safe for concurrent use.
type Client struct {
	conn     driver.Conn
	options  *ch.Options
	database string
}

// Open parses a client URL and makes a client; it does not connect. Schemes: http, https, clickhouse (native; with
// ?secure=true for TLS). The path is the database, weir if there is none. password_file names a file with the password.
// Errors do not contain the password.
func Open(address string) (*Client, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("clickhouse address: not a URL")
	}
	query := u.Query()
	if file := query.Get("password_file"); file != "" {
		password, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("clickhouse address: password_file: %w", err)
		}
		u.User = url.UserPassword(u.User.Username(), strings.TrimSpace(string(password)))
		query.Del("password_file")
	}
	if u.Scheme == "https" {
		query.Set("secure", "true")
	}
	u.RawQuery = query.Encode()
	if u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "clickhouse" || u.Host == "" {
		return nil, errors.New("clickhouse address: want http://host:port/weir, https://… or clickhouse://host:port/weir")
	}
	options, err := ch.ParseDSN(u.String())
	if err != nil {
		return nil, errors.New("clickhouse address: " + strings.ReplaceAll(err.Error(), u.String(), u.Redacted()))
	}
	if options.Auth.Database == "" {
		options.Auth.Database = defaultDatabase
	}
	// The embedded part takes no compression, and on a local network none is needed.
	options.Compression = &ch.Compression{Method: ch.CompressionNone}
	options.MaxOpenConns, options.MaxIdleConns = 16, 4
	options.DialTimeout, options.ReadTimeout = 5*time.Second, 5*time.Minute
	conn, err := ch.Open(options)
	if err != nil {
		return nil, fmt.Errorf("clickhouse: %w", err)
	}
	return &Client{conn: conn, options: options, database: options.Auth.Database}, nil
}

// Close closes the connections.
func (c *Client) Close() error { return c.conn.Close() }

// Ping returns nil when a query is answered.
func (c *Client) Ping(ctx context.Context) error {
	_, err := c.Query(ctx, "SELECT 1")
	return err
}

// CreateDatabase makes the client's database if it is missing. The client's own connections need it to exist, so this
// one uses the database default.
func (c *Client) CreateDatabase(ctx context.Context) error {
	o := *c.options
	o.Auth.Database = "default"
	conn, err := ch.Open(&o)
	if err != nil {
		return fmt.Errorf("clickhouse: %w", err)
	}
	defer conn.Close()
	if err := conn.Exec(ctx, "CREATE DATABASE IF NOT EXISTS "+quote(c.database)); err != nil {
		return fmt.Errorf("create database %s: %w", c.database, err)
	}
	return nil
}

func quote(name string) string {
	return "`" + strings.NewReplacer("\\", "\\\\", "`", "\\`").Replace(name) + "`"
}

// Exec runs a statement without a result.
func (c *Client) Exec(ctx context.Context, statement string) error {
	if err := c.conn.Exec(ctx, statement); err != nil {
		return fmt.Errorf("clickhouse: %w", err)
	}
	return nil
}

// Query runs a SELECT and returns every value as text: NULL as "NULL", an instant in RFC 3339, the rest as Go prints it.
// The rows are held in memory: bound the query.
func (c *Client) Query(ctx context.Context, statement string) ([][]string, error) {
	return c.Select(ctx, statement)
}

// Select is Query with arguments ({name:Type} or ? placeholders as the driver has them): never put a value of a user's
// into the statement itself.
func (c *Client) Select(ctx context.Context, statement string, args ...any) ([][]string, error) {
	rows, err := c.conn.Query(ctx, statement, args...)
	if err != nil {
		return nil, fmt.Errorf("clickhouse: %w", err)
	}
	defer rows.Close()
	var out [][]string
	for rows.Next() {
		row := make([]any, len(rows.ColumnTypes()))
		for i, t := range rows.ColumnTypes() {
			row[i] = reflect.New(t.ScanType()).Interface()
		}
		if err := rows.Scan(row...); err != nil {
			return nil, fmt.Errorf("clickhouse: %w", err)
		}
		texts := make([]string, len(row))
		for i := range row {
			texts[i] = textOf(reflect.ValueOf(row[i]).Elem())
		}
		out = append(out, texts)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("clickhouse: %w", err)
	}
	return out, nil
}

func textOf(v reflect.Value) string {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return "NULL"
		}
		v = v.Elem()
	}
	if t, ok := v.Interface().(time.Time); ok {
		return t.UTC().Format(time.RFC3339Nano)
	}
	return fmt.Sprint(v.Interface())
}
