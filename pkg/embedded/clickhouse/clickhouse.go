// Package clickhouse runs an embedded ClickHouse: the engine as a library behind a small HTTP front, or, where a
// clickhouse program is on PATH, that program.
//
// It owns the process, the front's HTTP protocol (enough for clickhouse-go over HTTP and for curl) and the two users
// default (everything) and finance (reads only). It does not own any schema.
//
// Invariants of the front: one statement runs at a time and at most 100 wait; nothing of a request (settings, current
// database) outlives it; an insert that was answered survives a kill; whatever it cannot do, it refuses by name.
package clickhouse

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/weir-project/weir/pkg/embedded/part"
	"github.com/weir-project/weir/pkg/obs"
)

// Config says where it lives and what it runs.
type Config struct {
	part.Config
	// Library is the path of libchdb.so; Self the command that leads to embedded.PartCommand.
	Library string
	Self    []string
	// Binary is a clickhouse program; if set, it is run instead of the library, unless the library made the data.
	Binary string
	// Password files, one line each. No file for default: no password. No file for finance: no such user.
	DefaultPasswordFile, FinancePasswordFile string
}

// Start runs ClickHouse and returns when it answers a query. The part's address logs in as default.
func Start(ctx context.Context, c Config) (*part.Part, error) {
	var err error
	if c.Config, err = c.WithDefaults(); err != nil {
		return nil, err
	}
	lock, err := part.Lock(part.LockOf(c.Dir))
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	password, err := readPassword(c.DefaultPasswordFile)
	if err != nil {
		return nil, err
	}
	address := url.URL{Scheme: "http", Host: c.Addr(), User: url.User(userDefault)}
	if password != "" {
		address.User = url.UserPassword(userDefault, password)
	}
	command, err := c.command()
	if err != nil {
		return nil, err
	}
	command.Address, command.Lock = address.String(), lock
	p, err := part.Spawn(command)
	if err != nil {
		return nil, err
	}
	return p.Started(ctx, func(ctx context.Context) error { return ping(ctx, command.Address) })
}

func (c Config) command() (part.Command, error) {
	byLibrary, byServer := isDir(filepath.Join(c.Dir, libraryData)), isDir(filepath.Join(c.Dir, serverData))
	switch {
	case byServer && c.Binary == "":
		return part.Command{}, fmt.Errorf("start clickhouse: the data in %s were made by a clickhouse program, which is not on PATH any more", c.Dir)
	case byServer || c.Binary != "" && !byLibrary:
		return c.serverCommand()
	case c.Library == "" || len(c.Self) == 0:
		return part.Command{}, fmt.Errorf("start clickhouse in %s: libchdb.so or the command for a part process is missing", c.Dir)
	}
	args := append(append([]string{}, c.Self[1:]...), "clickhouse", "--dir", c.Dir, "--port", strconv.Itoa(c.Port), "--library", c.Library)
	if c.DefaultPasswordFile != "" {
		args = append(args, "--default-password-file", c.DefaultPasswordFile)
	}
	if c.FinancePasswordFile != "" {
		args = append(args, "--finance-password-file", c.FinancePasswordFile)
	}
	// The working folder is the data's: the engine resolves relative file names against it.
	return part.Command{Kind: part.KindChdb, Path: c.Self[0], Args: args, Dir: c.Dir, LogFile: c.LogFile, Env: []string{"TZ=UTC"}}, nil
}

// libraryData and serverData are the folders of the two engines, which do not read each other's.
const (
	libraryData = "data"
	serverData  = "server"
)

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func readPassword(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("clickhouse password: %w", err)
	}
	password := strings.TrimSpace(string(b))
	if password == "" {
		return "", fmt.Errorf("clickhouse password: %s is empty", file)
	}
	return password, nil
}

// ping runs a query, so that it is the engine which answers.
func ping(ctx context.Context, address string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/?query=SELECT%201", nil)
	if err != nil {
		return fmt.Errorf("ping clickhouse: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("ping clickhouse: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 4096))
	if err != nil || resp.StatusCode != http.StatusOK {
		return fmt.Errorf("ping clickhouse: status %d: %s", resp.StatusCode, strings.TrimSpace(string(body)))
	}
	return nil
}

// Options of the part process.
type Options struct {
	Dir                                      string
	Port                                     int
	Library                                  string
	DefaultPasswordFile, FinancePasswordFile string
}

// Run is the body of the part process: it serves on 127.0.0.1 until ctx ends, then lets what runs finish.
func Run(ctx context.Context, o Options, log io.Writer) error {
	secrets := map[string][]byte{userDefault: nil}
	for user, file := range map[string]string{userDefault: o.DefaultPasswordFile, userFinance: o.FinancePasswordFile} {
		password, err := readPassword(file)
		if err != nil {
			return err
		}
		if password != "" {
			secrets[user] = secretHash(password)
		}
	}
	// Listen first: a taken port must not cost the engine's start.
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(o.Port)))
	if err != nil {
		return fmt.Errorf("clickhouse front: %w", err)
	}
	defer listener.Close()
	e, err := openEngine(o.Library, o.Dir)
	if err != nil {
		return err
	}
	defer e.close()
	server := &http.Server{Handler: &front{engine: e, secrets: secrets}, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 5 * time.Minute}
	fmt.Fprintln(log, "serving", listener.Addr(), "engine", e.version)
	if err := obs.Run(ctx, listener, server, 5*time.Second); err != nil {
		return fmt.Errorf("clickhouse front: %w", err)
	}
	return nil
}
