// Package redis runs a redis-server of ours: append-only file, fsync before every reply, no eviction, loopback only.
package redis

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/weir-project/weir/pkg/embedded/part"
)

// Config says where it lives and which program it is.
type Config struct {
	part.Config
	// Binary is the path of redis-server.
	Binary string
}

// Start runs redis-server and returns when it answers PING, which it does only after it has loaded its data.
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
	p, err := part.Spawn(part.Command{
		Kind: part.KindRedis, Address: "redis://" + c.Addr() + "/0", Path: c.Binary, Dir: c.Dir, LogFile: c.LogFile, Lock: lock,
		Args: []string{
			"--bind", "127.0.0.1", "--port", strconv.Itoa(c.Port), "--protected-mode", "yes", "--daemonize", "no",
			"--dir", c.Dir, "--appendonly", "yes", "--appendfsync", "always", "--save", "",
			// Admission refuses to run on a Redis that may forget counters.
			"--maxmemory-policy", "noeviction",
			// A torn last command after a crash was never acknowledged.
			"--aof-load-truncated", "yes",
		},
	})
	if err != nil {
		return nil, err
	}
	return p.Started(ctx, func(ctx context.Context) error { return Ping(ctx, c.Addr()) })
}

// Ping returns nil when a Redis answers at host:port. It speaks the inline form of the protocol, so that this package needs
// no client library.
func Ping(ctx context.Context, addr string) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("ping redis: %w", err)
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	} else {
		_ = conn.SetDeadline(time.Now().Add(time.Second))
	}
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return fmt.Errorf("ping redis: %w", err)
	}
	line, err := bufio.NewReaderSize(conn, 512).ReadString('\n')
	if err != nil {
		return fmt.Errorf("ping redis: %w", err)
	}
	if !strings.HasPrefix(line, "+PONG") {
		return fmt.Errorf("ping redis: it answers %q", strings.TrimSpace(line))
	}
	return nil
}
