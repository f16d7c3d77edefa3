// Package kafka runs the embedded brokers: franz-go's kfake with a data folder (the default of `weir up`), and Apache
// Kafka on Java for those who ask for it.
//
// Invariants: loopback only; no topic is ever created by asking for it; an acknowledged record is on disk. kfake is
// not safe for transactions across a crash, so nothing of ours uses them.
package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weir-project/weir/pkg/embedded/part"
)

// Config says where the kfake process lives.
type Config struct {
	part.Config
	// Self is the command that leads to embedded.PartCommand, e.g. {"/usr/bin/weir", "part"}.
	Self []string
}

// Start runs kfake as a process of its own and returns when it answers.
func Start(ctx context.Context, c Config) (*part.Part, error) {
	var err error
	if c.Config, err = c.WithDefaults(); err != nil {
		return nil, err
	}
	if len(c.Self) == 0 {
		return nil, errors.New("start kafka: no command for a part process")
	}
	lock, err := part.Lock(part.LockOf(c.Dir))
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	p, err := part.Spawn(part.Command{
		Kind: part.KindKfake, Address: "kafka://" + c.Addr(), Path: c.Self[0], Dir: "/", LogFile: c.LogFile, Lock: lock,
		Args: append(append([]string{}, c.Self[1:]...), "kafka", "--dir", c.Dir, "--port", strconv.Itoa(c.Port)),
	})
	if err != nil {
		return nil, err
	}
	return p.Started(ctx, func(ctx context.Context) error { return Ping(ctx, c.Addr()) })
}

// Ping asks brokers for their API versions and the cluster's metadata.
func Ping(ctx context.Context, addrs ...string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(addrs...), kgo.RequestRetries(0), kgo.DialTimeout(time.Second))
	if err != nil {
		return fmt.Errorf("ping kafka: %w", err)
	}
	defer client.Close()
	if err := client.Ping(ctx); err != nil {
		return fmt.Errorf("ping kafka: %w", err)
	}
	return nil
}

// Run is the body of the part process: it serves on 127.0.0.1:port until ctx ends, then closes in order, which saves
// the producers' windows. A kill loses no acknowledged record, but may let a producer's retry in twice.
func Run(ctx context.Context, dir string, port int, log io.Writer) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("kafka folder: %w", err)
	}
	data := filepath.Join(dir, "data")
	if err := os.MkdirAll(data, 0o700); err != nil {
		return fmt.Errorf("kafka folder: %w", err)
	}
	cluster, err := NewCluster(log, kfake.Ports(port), kfake.DataDir(data), kfake.SyncWrites())
	if err != nil {
		return err
	}
	fmt.Fprintln(log, "serving", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	<-ctx.Done()
	cluster.Close()
	return nil
}

// NewCluster makes one kfake broker with the settings that Weir relies on; opts add the port and the data folder.
func NewCluster(log io.Writer, opts ...kfake.Opt) (*kfake.Cluster, error) {
	all := append([]kfake.Opt{
		kfake.NumBrokers(1),
		kfake.ClusterID("weir-embedded"),
		kfake.WithLogger(kfake.BasicLogger(log, kfake.LogLevelWarn)),
		kfake.BrokerConfigs(brokerConfigs()),
	}, opts...)
	cluster, err := kfake.NewCluster(all...)
	if err != nil {
		return nil, fmt.Errorf("start kfake: %w", err)
	}
	return cluster, nil
}

// brokerConfigs differ from kfake's defaults where a laptop that sleeps for a week would lose its place.
func brokerConfigs() map[string]string {
	return map[string]string{
		// Ten years: a group that was away longer than its offsets live would start anew.
		"offsets.retention.minutes": strconv.Itoa(10 * 366 * 24 * 60),
		// Compaction and retention run together. kfake knows no compaction lag, so it cleans seldom: every 6 hours.
		"log.cleaner.backoff.ms":     strconv.Itoa(6 * 60 * 60 * 1000),
		"default.replication.factor": "1",
	}
}
