package bus_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weir-project/weir/pkg/bus"
)

func contains(s, part string) bool { return strings.Contains(s, part) }

// The hash values are those that Kafka's own unit test of murmur2 lists; the modulo is over the cleared sign bit.
func TestPartitionForAgreesWithKafka(t *testing.T) {
	for key, hash := range map[string]int32{
		"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536,
		"a-little-bit-longer-string": -1486304829, "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971, "abc": 479470107,
	} {
		for _, n := range []int{1, 4, 12, 1000} {
			if got, want := bus.PartitionFor([]byte(key), n), (hash&0x7fffffff)%int32(n); got != want {
				t.Errorf("PartitionFor(%q, %d) = %d, want %d", key, n, got, want)
			}
		}
	}
	if bus.PartitionFor([]byte("x"), 0) != 0 {
		t.Error("no partitions must not panic")
	}
	// Kafka's hash of no bytes is 275646681: a record without a key has a fixed partition too.
	for range 100 {
		if got := bus.PartitionFor(nil, 1000); got != 681 {
			t.Fatalf("no key: partition %d", got)
		}
	}
}

func TestProduceWritesAllToTheChosenPartitions(t *testing.T) {
	topic := testTopic("t", 8)
	k := startKafka(t, topic)
	conn, registry := k.connect("a")
	p := newProducer(t, conn, topic)
	var wg sync.WaitGroup
	for g := range 10 {
		wg.Go(func() {
			var records []bus.Record
			for i := range 20 {
				tenant := fmt.Sprint("tenant-", g)
				records = append(records, bus.NewRecord(topic, tenant, fmt.Append(nil, tenant, "|day|", i), []byte("v"), bus.Header{Key: "h", Value: []byte("1")}))
			}
			if err := p.Produce(within(t), records...); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	total := 0
	for partition := range int32(8) {
		err := conn.ReadPartition(within(t), topic, partition, -1, -1, func(r bus.Record) error {
			total++
			tenant, _, _ := bytes.Cut(r.Key, []byte("|"))
			if bus.PartitionFor(tenant, 8) != partition {
				t.Errorf("key %s in partition %d", r.Key, partition)
			}
			if v, ok := r.Header("h"); !ok || string(v) != "1" || r.Timestamp.IsZero() {
				t.Errorf("header or timestamp lost: %+v", r)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	if total != 200 || metric(t, registry, "weir_bus_produced_records_total") != 200 {
		t.Errorf("%d records written", total)
	}
}

func TestProduceRefusesBeforeWriting(t *testing.T) {
	topic := testTopic("t", 2)
	k := startKafka(t, topic)
	conn, _ := k.connect("a")
	p := newProducer(t, conn, topic)
	good := bus.Record{Topic: topic, Value: []byte("v")}
	for name, bad := range map[string]bus.Record{
		"undeclared topic":  {Value: []byte("v")},
		"partition too big": {Topic: topic, Partition: 2},
		"negative":          {Topic: topic, Partition: -1},
		"too large":         {Topic: topic, Key: make([]byte, 1), Value: make([]byte, 900), Headers: []bus.Header{{Key: "k", Value: make([]byte, 99)}}},
	} {
		err := p.Produce(within(t), good, bad)
		if err == nil || errors.Is(err, bus.ErrTooLarge) != (name == "too large") {
			t.Errorf("%s: %v", name, err)
		}
	}
	exact := bus.Record{Topic: topic, Key: make([]byte, 1), Value: make([]byte, 999)}
	if err := p.Produce(within(t), exact); err != nil {
		t.Errorf("at the bound: %v", err)
	}
	ends, err := k.admin().EndOffsets(within(t), topic)
	if err != nil || ends[0] != 1 {
		t.Errorf("end offsets %v, %v: only the record at the bound is to be there", ends, err)
	}
}

// A broker that does not answer: Produce ends with the caller's context, and a full buffer waits no longer either.
func TestProduceEndsWithItsContext(t *testing.T) {
	topic := testTopic("t", 1)
	k := startKafka(t, topic)
	conn, _ := k.connect("a")
	p, err := conn.Producer(bus.ProducerConfig{MaxBuffered: 1}, topic)
	if err != nil {
		t.Fatal(err)
	}
	asked, answer := make(chan struct{}, 100), make(chan struct{})
	k.cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		asked <- struct{}{}
		k.cluster.SleepControl(func() { <-answer })
		return nil, nil, false
	})
	ctx, cancel := context.WithCancel(within(t))
	errs := make(chan error, 1)
	go func() { errs <- p.Produce(ctx, bus.Record{Topic: topic, Value: []byte("v")}) }()
	receive(within(t), t, "request at the broker", asked)
	full, give := context.WithCancel(within(t))
	give()
	if err := p.Produce(full, bus.Record{Topic: topic}); !errors.Is(err, context.Canceled) {
		t.Errorf("full buffer: %v", err)
	}
	cancel()
	if err := receive(within(t), t, "Produce returns", errs); !errors.Is(err, context.Canceled) {
		t.Errorf("Produce = %v", err)
	}
	close(answer)
	p.Close(within(t)) // the record whose caller has gone is still flushed
	admin, err := conn.Admin()
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	if ends, err := admin.EndOffsets(within(t), topic); err != nil || ends[0] != 1 {
		t.Errorf("%v, %v", ends, err)
	}
}
