package testkit

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/embedded/part"
)

// sentinelMaster is the name that the Sentinel watches a master by.
const sentinelMaster = "weir"

// RedisSentinel makes replica a copy of master, and runs a Sentinel that promotes it when the master is gone. It returns the client
// URL by Sentinel, once the replica is in sync and the Sentinel knows it. The Sentinel waits for ten minutes, as a master that only
// stands still for a moment must not be taken for one that is gone; look makes it look at once.
func RedisSentinel(t testing.TB, master, replica *part.Part) (address string, look func()) {
	t.Helper()
	ctx := startContext(t)
	binary, err := Installer(t).Redis(ctx)
	check(t, err)
	at := hostOf(t, master)
	askRedis(t, ctx, at, "CONFIG SET repl-diskless-sync-delay 0")
	host, port, _ := strings.Cut(at, ":")
	askRedis(t, ctx, hostOf(t, replica), "REPLICAOF "+host+" "+port)
	c, err := inTemp(t, part.Config{}).WithDefaults()
	check(t, err)
	file := filepath.Join(c.Dir, "sentinel.conf") // the Sentinel rewrites it
	conf := fmt.Sprintf("bind 127.0.0.1\nport %d\ndir %s\nsentinel monitor %s %s %s 1\nsentinel down-after-milliseconds %[3]s 600000\n"+
		"sentinel failover-timeout %[3]s 6000\n", c.Port, c.Dir, sentinelMaster, host, port)
	check(t, os.WriteFile(file, []byte(conf), 0o600))
	spawnRedis(t, ctx, binary, c, file, "--sentinel")
	await(t, ctx, "the replica to be in sync", func() bool {
		return strings.Contains(askRedis(t, ctx, hostOf(t, replica), "INFO replication"), "master_link_status:up")
	})
	await(t, ctx, "the Sentinel to know the replica", func() bool {
		info := askRedis(t, ctx, c.Addr(), "INFO sentinel")
		return strings.Contains(info, "status=ok") && strings.Contains(info, "slaves=1")
	})
	return "redis+sentinel://" + c.Addr() + "/0?master_name=" + sentinelMaster, func() {
		t.Helper()
		askRedis(t, t.Context(), c.Addr(), "SENTINEL SET "+sentinelMaster+" down-after-milliseconds 1000")
	}
}

func hostOf(t testing.TB, p *part.Part) string {
	t.Helper()
	u, err := url.Parse(p.Address)
	check(t, err)
	return u.Host
}

// await asks until ok, or fails when ctx ends.
func await(t testing.TB, ctx context.Context, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatalf("testkit: waited for %s", what)
		case <-tick.C:
		}
	}
}
