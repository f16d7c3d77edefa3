// Package part runs one embedded part (a broker, a store) as a child process that outlives its starter.
//
// It owns starting, waiting for readiness, finding again and stopping. It does not own what a part is: the packages
// kafka, redis, postgres and clickhouse do.
//
// Invariants: a child has a session of its own, writes to its own log file and holds no descriptor of its starter but a lock;
// the remembered pid is the part itself, never a wrapper; a process is signalled only when pid and start time are
// those that were remembered, or found with the lock of a data folder, which only what was started on that folder has.
package part

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// The kinds of parts, as `weir status` shows them.
const (
	KindKfake       = "kfake"
	KindApacheKafka = "apache-kafka"
	KindRedis       = "redis-server"
	KindPostgres    = "postgres"
	KindChdb        = "libchdb"
	KindClickHouse  = "clickhouse-server"
)

// DefaultGrace is how long a part may take to end by itself; with the kill that follows, a hung part ends within 15 s.
const DefaultGrace = 10 * time.Second

// killWait is how long a killed process may take to vanish: the kernel has to free its memory, which takes a moment, or many on
// a machine that stands still.
const killWait = 30 * time.Second

// Config says where a part lives.
type Config struct {
	// Dir holds everything that the part writes; it is made if missing.
	Dir string
	// Port on 127.0.0.1; 0 picks a free one.
	Port int
	// LogFile gets what the process prints; default Dir/log.
	LogFile string
}

// WithDefaults makes Dir absolute, picks a free port and names the log file.
func (c Config) WithDefaults() (Config, error) {
	if c.Dir == "" {
		return c, errors.New("a part needs a folder")
	}
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return c, fmt.Errorf("part folder: %w", err)
	}
	c.Dir = dir
	if c.LogFile == "" {
		c.LogFile = filepath.Join(dir, "log")
	}
	if c.Port == 0 {
		if c.Port, err = FreePort(); err != nil {
			return c, err
		}
	}
	return c, nil
}

// Addr is the part's host:port.
func (c Config) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(c.Port)) }

// Part is one running part. Its JSON form is all that another process needs to find it again: Alive says whether
// that is still the same process.
type Part struct {
	Kind string `json:"kind"`
	// Address is a full client URL, secrets included.
	Address string `json:"address"`
	// PID and Start (clock ticks between boot and its start) identify the process.
	PID   int    `json:"pid"`
	Start uint64 `json:"start"`
	// Signal asks it to end; SIGTERM for most, SIGINT for Postgres, which would wait for its clients otherwise.
	Signal  syscall.Signal `json:"signal"`
	LogFile string         `json:"log_file"`
	// ended is closed when a child of this very process was reaped; nil in one that was read back.
	ended chan struct{}
}
