package kafka

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/weir-project/weir/pkg/embedded/part"
)

// ApacheConfig says where the nodes live and which programs they run.
type ApacheConfig struct {
	part.Config
	// Java is the path of java, 17 or later. Jars is the folder with Kafka's class path.
	Java, Jars string
	// Nodes is 1 (default) or more; each is broker and controller. Port is the first node's.
	Nodes int
	// Extra are further lines of server.properties, which win over ours: for tests with another listener.
	Extra []string
}

// node is one process of a cluster.
type node struct {
	id                int
	dir               string
	broker, quorum    int // ports
	voters, clusterID string
	nodes             int
}

// StartApache runs Apache Kafka in KRaft mode and returns one part per node when all answer. Every part's address
// names all nodes. If one does not come up, none stays behind.
func StartApache(ctx context.Context, c ApacheConfig) ([]*part.Part, error) {
	c.Nodes = max(c.Nodes, 1)
	var err error
	if c.Config, err = c.WithDefaults(); err != nil {
		return nil, err
	}
	lock, err := part.Lock(part.LockOf(c.Dir)) // one for all nodes
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	nodes, err := c.layout()
	if err != nil {
		return nil, err
	}
	var addrs []string
	for _, n := range nodes {
		if err := c.format(ctx, n, lock); err != nil {
			return nil, err
		}
		addrs = append(addrs, fmt.Sprintf("127.0.0.1:%d", n.broker))
	}
	var parts []*part.Part
	for _, n := range nodes {
		p, err := c.spawn(n, "kafka://"+strings.Join(addrs, ","), lock)
		if err != nil {
			return nil, errors.Join(err, killAll(parts))
		}
		parts = append(parts, p)
	}
	for i, p := range parts {
		if err := p.WaitReady(ctx, func(ctx context.Context) error { return Ping(ctx, addrs[i]) }); err != nil {
			return nil, errors.Join(err, killAll(parts))
		}
	}
	return parts, nil
}

func killAll(parts []*part.Part) error {
	var errs []error
	for _, p := range parts {
		errs = append(errs, p.Kill())
	}
	return errors.Join(errs...)
}

// layout gives every node its folder and its ports, and the cluster an id that is the same after a restart.
func (c ApacheConfig) layout() ([]node, error) {
	id, err := c.clusterID()
	if err != nil {
		return nil, err
	}
	var nodes []node
	var voters []string
	for i := range c.Nodes {
		n := node{id: i + 1, dir: filepath.Join(c.Dir, fmt.Sprintf("node-%d", i+1)), broker: c.Port, clusterID: id, nodes: c.Nodes}
		if i > 0 {
			if n.broker, err = part.FreePort(); err != nil {
				return nil, err
			}
		}
		if n.quorum, err = part.FreePort(); err != nil {
			return nil, err
		}
		voters = append(voters, fmt.Sprintf("%d@127.0.0.1:%d", n.id, n.quorum))
		nodes = append(nodes, n)
	}
	for i := range nodes {
		nodes[i].voters = strings.Join(voters, ",")
	}
	return nodes, nil
}

// clusterID is 16 random bytes in unpadded URL-safe base64, as Kafka wants it, kept in a file.
func (c ApacheConfig) clusterID() (string, error) {
	file := filepath.Join(c.Dir, "cluster_id")
	b, err := os.ReadFile(file)
	if err == nil && len(b) > 0 {
		return strings.TrimSpace(string(b)), nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("kafka cluster id: %w", err)
	}
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return "", fmt.Errorf("kafka folder: %w", err)
	}
	random := make([]byte, 16)
	_, _ = rand.Read(random) // it never fails
	random[0] &= 0x7f        // an id that begins with '-' would be read as a flag
	id := base64.RawURLEncoding.EncodeToString(random)
	if err := os.WriteFile(file, []byte(id), 0o600); err != nil {
		return "", fmt.Errorf("kafka cluster id: %w", err)
	}
	return id, nil
}

// format writes the node's configuration anew (its ports may have changed) and formats its folder when it is fresh.
func (c ApacheConfig) format(ctx context.Context, n node, lock *os.File) error {
	if err := os.MkdirAll(n.dir, 0o700); err != nil {
		return fmt.Errorf("kafka folder: %w", err)
	}
	files := map[string]string{"server.properties": n.properties() + strings.Join(c.Extra, "\n") + "\n", "log4j2.properties": log4j2}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(n.dir, name), []byte(text), 0o600); err != nil {
			return fmt.Errorf("kafka configuration: %w", err)
		}
	}
	if _, err := os.Stat(filepath.Join(n.dir, "data", "meta.properties")); err == nil {
		return nil
	}
	args := append(c.javaArgs(n, "128m"), "kafka.tools.StorageTool", "format", "-t", n.clusterID, "-c", filepath.Join(n.dir, "server.properties"))
	cmd := exec.CommandContext(ctx, c.Java, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = &out, &out, []*os.File{lock}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("format kafka: %w: %s", err, strings.TrimSpace(out.String()))
	}
	return nil
}

func (c ApacheConfig) javaArgs(n node, heap string) []string {
	return []string{
		// Only the compiler that is quick to begin: a broker beside its users starts with two thirds of the processor time, and
		// a tool that ends after a second with half. A broker of production is the user's own.
		"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx" + heap, "-Djava.awt.headless=true", "-Dlog4j2.configurationFile=" + filepath.Join(n.dir, "log4j2.properties"),
		"-cp", filepath.Join(c.Jars, "*"),
	}
}

func (c ApacheConfig) spawn(n node, address string, lock *os.File) (*part.Part, error) {
	log := c.LogFile
	if n.nodes > 1 {
		log = fmt.Sprintf("%s.%d", c.LogFile, n.id)
	}
	return part.Spawn(part.Command{
		Kind: part.KindApacheKafka, Address: address, Path: c.Java, Dir: n.dir, LogFile: log, Lock: lock,
		Args: append(c.javaArgs(n, "512m"), "kafka.Kafka", filepath.Join(n.dir, "server.properties")),
	})
}
