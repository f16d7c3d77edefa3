package testkit

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-project/weir/pkg/embedded/part"
	"github.com/weir-project/weir/pkg/embedded/redis"
)

// clusterSlots is how many hash slots a Redis Cluster has.
const clusterSlots = 16384

// RedisCluster runs a Redis Cluster of n masters that share the slots evenly. It returns the client URL of all of them,
// and one part each.
func RedisCluster(t testing.TB, n int) (address string, nodes []*part.Part) {
	t.Helper()
	ctx := startContext(t)
	binary, err := Installer(t).Redis(ctx)
	check(t, err)
	hosts := make([]string, n)
	for i := range n {
		bus, err := part.FreePort()
		check(t, err)
		c, err := inTemp(t, part.Config{}).WithDefaults()
		check(t, err)
		hosts[i] = c.Addr()
		nodes = append(nodes, spawnRedis(t, ctx, binary, c, "--bind", "127.0.0.1", "--port", strconv.Itoa(c.Port), "--daemonize", "no", "--dir", c.Dir,
			"--save", "", "--maxmemory-policy", "noeviction", "--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(bus)))
		askRedis(t, ctx, c.Addr(), fmt.Sprintf("CLUSTER ADDSLOTSRANGE %d %d", i*clusterSlots/n, (i+1)*clusterSlots/n-1))
		if i > 0 {
			askRedis(t, ctx, hosts[0], fmt.Sprintf("CLUSTER MEET 127.0.0.1 %d %d", c.Port, bus))
		}
	}
	for _, host := range hosts {
		await(t, ctx, host+" to serve all slots and know all nodes", func() bool {
			info := askRedis(t, ctx, host, "CLUSTER INFO")
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d\r", n))
		})
	}
	return "redis+cluster://" + hosts[0] + "?addr=" + strings.Join(hosts[1:], "&addr="), nodes
}

// spawnRedis runs the Redis program with arguments of the test's own, until the test ends.
func spawnRedis(t testing.TB, ctx context.Context, binary string, c part.Config, args ...string) *part.Part {
	t.Helper()
	p, err := part.Spawn(part.Command{Kind: part.KindRedis, Address: "redis://" + c.Addr(), Path: binary, Dir: c.Dir, LogFile: c.LogFile, Args: args})
	check(t, err)
	p, err = p.Started(ctx, func(ctx context.Context) error { return redis.Ping(ctx, c.Addr()) })
	check(t, err)
	stopAtEnd(t, p)
	return p
}

// askRedis sends one inline command and returns the reply's text.
func askRedis(t testing.TB, ctx context.Context, host, command string) string {
	t.Helper()
	reply, err := AskRedis(ctx, "redis://"+host, command)
	if err != nil {
		t.Fatalf("testkit: %s: %v", command, err)
	}
	return reply
}

// AskRedis sends one inline command to the Redis at a client URL and returns the text of its reply.
func AskRedis(ctx context.Context, address, command string) (string, error) {
	host := strings.TrimSuffix(strings.TrimPrefix(address, "redis://"), "/0")
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", host)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	if _, err := fmt.Fprintf(conn, "%s\r\n", command); err != nil {
		return "", err
	}
	r := bufio.NewReader(conn)
	line, err := r.ReadString('\n')
	switch {
	case err != nil:
		return "", err
	case line[0] == '-':
		return "", fmt.Errorf("%s", strings.TrimSpace(line[1:]))
	case line[0] != '$':
		return strings.TrimSpace(line[1:]), nil
	}
	size, err := strconv.Atoi(strings.TrimSpace(line[1:]))
	if err != nil {
		return "", err
	}
	text := make([]byte, max(size, 0)) // -1: there is nothing
	_, err = io.ReadFull(r, text)
	return string(text), err
}
