package testkit

import (
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weir-project/weir/pkg/embedded/kafka"
	"github.com/weir-project/weir/pkg/embedded/part"
)

// Kafka runs a kfake broker inside the test, in memory, and returns its client URL. It needs no program and no build
// tag. The broker has no topics and creates none by itself.
func Kafka(t testing.TB) (address string) {
	t.Helper()
	address, _ = KafkaCluster(t)
	return address
}

// KafkaCluster is Kafka with the broker itself, for tests that inject faults.
func KafkaCluster(t testing.TB, opts ...kfake.Opt) (address string, cluster *kfake.Cluster) {
	t.Helper()
	cluster, err := kafka.NewCluster(io.Discard, opts...)
	check(t, err)
	t.Cleanup(cluster.Close)
	return "kafka://" + strings.Join(cluster.ListenAddrs(), ","), cluster
}

// Patient lets a broker wait for two minutes before it takes a silent member's partitions away, whatever session the members
// ask for: they send heartbeats as often as a short session wants it, so that a group moves fast, and none of them is dropped
// where the machine stood still for that long. Who leaves is gone at once.
func Patient(cluster *kfake.Cluster) {
	cluster.ControlKey(int16(kmsg.JoinGroup), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		req.(*kmsg.JoinGroupRequest).SessionTimeoutMillis = int32((2 * time.Minute).Milliseconds())
		return nil, nil, false
	})
}

// KafkaServer runs the kfake process of `weir up`, with a data folder: for tests that kill it and start it again.
func KafkaServer(t testing.TB, c part.Config) *part.Part {
	t.Helper()
	p, err := kafka.Start(startContext(t), kafka.Config{Config: inTemp(t, c), Self: partCommand(t)})
	check(t, err)
	stopAtEnd(t, p)
	return p
}

// ApacheKafka runs Apache Kafka and returns its client URL and one part per node. nodes is 1 or 3.
func ApacheKafka(t testing.TB, nodes int) (address string, parts []*part.Part) {
	t.Helper()
	parts = ApacheKafkaServer(t, part.Config{}, nodes)
	return parts[0].Address, parts
}

// ApacheKafkaServer is ApacheKafka in a folder of the test's choice, for tests that start it again there, with further
// lines of server.properties.
func ApacheKafkaServer(t testing.TB, c part.Config, nodes int, properties ...string) []*part.Part {
	t.Helper()
	i, ctx := Installer(t), startContext(t)
	jars, err := i.Kafka(ctx)
	check(t, err)
	java, err := i.Java(ctx)
	check(t, err)
	parts, err := kafka.StartApache(ctx, kafka.ApacheConfig{Config: inTemp(t, c), Java: java, Jars: jars, Nodes: nodes, Extra: properties})
	check(t, err)
	for _, p := range parts {
		stopAtEnd(t, p)
	}
	return parts
}

// inTemp gives a part a folder of the test's if it has none.
func inTemp(t testing.TB, c part.Config) part.Config {
	if c.Dir == "" {
		c.Dir = t.TempDir()
	}
	return c
}

// buildWeirpart compiles the part program into a folder. The go command caches the work between test binaries.
func buildWeirpart(dir string) (path string, err error) {
	path = filepath.Join(dir, "weirpart")
	out, err := exec.Command("go", "build", "-o", path, "github.com/weir-project/weir/pkg/embedded/cmd/weirpart").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the part program: %w: %s", err, out)
	}
	return path, nil
}

// partCommand is how the part processes of our own program are run in tests.
func partCommand(t testing.TB) []string {
	t.Helper()
	path, err := shared(t).weirpart()
	check(t, err)
	return []string{path}
}
