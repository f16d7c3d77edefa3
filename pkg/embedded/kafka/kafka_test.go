//go:build integration

package kafka_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weir-project/weir/pkg/embedded/part"
	"github.com/weir-project/weir/pkg/testkit"
)

func client(t *testing.T, address string) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(strings.TrimPrefix(address, "kafka://"), ",")...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// within bounds what is asked of a broker that runs. Starting one has a bound of its own: on a busy machine Java takes its time.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// fill makes a topic with n records and commits an offset of a group.
func fill(t *testing.T, address string, replicas int16, n int) {
	t.Helper()
	c, ctx := client(t, address), within(t)
	admin := kadm.NewClient(c)
	if _, err := admin.CreateTopic(ctx, 1, replicas, nil, "t"); err != nil {
		t.Fatal(err)
	}
	produce(t, c, n)
	var offsets kadm.Offsets
	offsets.AddOffset("t", 0, int64(n-1), 0)
	if err := admin.CommitAllOffsets(ctx, "g", offsets); err != nil {
		t.Fatal(err)
	}
}

func produce(t *testing.T, c *kgo.Client, n int) {
	t.Helper()
	ctx := within(t)
	for range n {
		if err := c.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: []byte("v")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

// check finds the records and the group's offset again.
func check(t *testing.T, address string, n int64) {
	t.Helper()
	admin, ctx := kadm.NewClient(client(t, address)), within(t)
	ends, err := admin.ListEndOffsets(ctx, "t")
	if err != nil {
		t.Fatal(err)
	}
	if end, _ := ends.Lookup("t", 0); end.Offset != n {
		t.Errorf("the topic ends at %d, want %d", end.Offset, n)
	}
	offsets, err := admin.FetchOffsets(ctx, "g")
	if err != nil {
		t.Fatal(err)
	}
	if o, _ := offsets.Lookup("t", 0); o.At != n-1 {
		t.Errorf("the group is at %d, want %d", o.At, n-1)
	}
}

func TestKfakeKeepsTopicsAndOffsets(t *testing.T) {
	for name, end := range map[string]func(*part.Part) error{
		"killed":  (*part.Part).Kill,
		"stopped": func(p *part.Part) error { return p.Stop(0) },
	} {
		t.Run(name, func(t *testing.T) {
			config := part.Config{Dir: t.TempDir()}
			p := testkit.KafkaServer(t, config)
			fill(t, p.Address, 1, 20)
			if err := end(p); err != nil {
				t.Fatal(err)
			}
			check(t, testkit.KafkaServer(t, config).Address, 20)
		})
	}
}

func TestApacheKafkaKeepsTopicsAndOffsets(t *testing.T) {
	config := part.Config{Dir: t.TempDir()}
	p := testkit.ApacheKafkaServer(t, config, 1)[0]
	fill(t, p.Address, 1, 20)
	if err := p.Stop(0); err != nil {
		t.Fatal(err)
	}
	check(t, testkit.ApacheKafkaServer(t, config, 1)[0].Address, 20)
}

func TestApacheKafkaOutlivesOneOfThree(t *testing.T) {
	address, nodes := testkit.ApacheKafka(t, 3)
	fill(t, address, 3, 20)
	if err := nodes[0].Kill(); err != nil {
		t.Fatal(err)
	}
	produce(t, client(t, address), 5)
	ends, err := kadm.NewClient(client(t, address)).ListEndOffsets(within(t), "t")
	if err != nil {
		t.Fatal(err)
	}
	if end, _ := ends.Lookup("t", 0); end.Offset != 25 {
		t.Errorf("the topic ends at %d, want 25", end.Offset)
	}
}
