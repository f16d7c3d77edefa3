package bus

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Admin asks and changes what is not records: topics, offsets, the broker's presence.
type Admin struct {
	raw     *kgo.Client
	cl      *kadm.Client
	address Address
}

// Admin makes an administrative client. Close it.
func (c *Conn) Admin() (*Admin, error) {
	cl, err := c.client()
	if err != nil {
		return nil, err
	}
	a := newAdmin(cl)
	a.address = c.opts.Address
	return a, nil
}

func newAdmin(cl *kgo.Client) *Admin { return &Admin{raw: cl, cl: kadm.NewClient(cl)} }

// Close closes the connections.
func (a *Admin) Close() { a.cl.Close() }

// Ping returns nil when some broker answers before ctx ends, else what most likely keeps it from answering.
func (a *Admin) Ping(ctx context.Context) error {
	if _, err := a.cl.BrokerMetadata(ctx); err != nil {
		return fmt.Errorf("kafka: %w", a.address.explain(err))
	}
	return nil
}

// Answers returns nil when some broker answers now, at the first try. Ping may be content with what a broker answered before.
func (a *Admin) Answers(ctx context.Context) error {
	if err := a.raw.Ping(ctx); err != nil {
		return fmt.Errorf("kafka: %w", a.address.explain(err))
	}
	return nil
}

// TopicConfigs is what a topic's declaration means in Kafka's own settings.
func TopicConfigs(t Topic) map[string]string {
	cfg := map[string]string{
		"cleanup.policy":    t.spec.Cleanup,
		"retention.ms":      strconv.FormatInt(t.spec.RetentionMs, 10),
		"retention.bytes":   "-1", // whatever the broker's own default is: time alone ends a record
		"max.message.bytes": strconv.Itoa(maxBatchBytes(t)),
	}
	if t.Compacted() {
		cfg["min.compaction.lag.ms"] = strconv.FormatInt(t.spec.MinCompactionLagMs, 10)
	}
	return cfg
}

// appearWithin bounds the wait until a created topic is known to the brokers.
const appearWithin = 10 * time.Second

// EnsureTopics creates the topics that are missing, and returns when the brokers know them: a KRaft controller
// acknowledges a topic before every broker has heard of it. Those which exist are left as they are (see CheckTopics).
func (a *Admin) EnsureTopics(ctx context.Context, topics []Topic, replication int) error {
	for _, t := range topics {
		cfg := map[string]*string{}
		for k, v := range TopicConfigs(t) {
			cfg[k] = &v
		}
		_, err := a.cl.CreateTopic(ctx, int32(t.Partitions()), int16(replication), cfg, t.Name())
		if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			return fmt.Errorf("create topic %s: %w", t.Name(), err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, appearWithin)
	defer cancel()
	wait := backoff{min: 10 * time.Millisecond, max: 200 * time.Millisecond}
	for {
		_, err := a.known(ctx, topics)
		if err == nil || !wait.wait(ctx) {
			return err
		}
	}
}

// known describes the topics. Its error names the first one that the brokers do not know.
func (a *Admin) known(ctx context.Context, topics []Topic) (kadm.TopicDetails, error) {
	a.raw.PurgeTopicsFromClient(names(topics)...) // or the cached "no such topic" would answer
	details, err := a.cl.ListTopics(ctx, names(topics)...)
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", err)
	}
	for _, t := range topics {
		d := details[t.Name()]
		if d.Err == nil && len(d.Partitions) == 0 {
			d.Err = kerr.UnknownTopicOrPartition
		}
		if d.Err != nil {
			return nil, fmt.Errorf("topic %s is not known yet: %w", t.Name(), d.Err)
		}
	}
	return details, nil
}

func names(topics []Topic) []string {
	out := make([]string, len(topics))
	for i, t := range topics {
		out[i] = t.Name()
	}
	return out
}

// CheckPartitions reports the first topic that is missing or has another number of partitions than declared, in which a
// tenant's records would be in the wrong place. It needs no more than the right to describe, which every service has.
func (a *Admin) CheckPartitions(ctx context.Context, topics ...Topic) error {
	details, err := a.known(ctx, topics)
	if err != nil {
		return err
	}
	for _, t := range topics {
		if n := len(details[t.Name()].Partitions); n != t.Partitions() {
			return fmt.Errorf("topic %s has %d partitions, declared are %d", t.Name(), n, t.Partitions())
		}
	}
	return nil
}

// CheckTopics compares the topics with their declarations and returns one error that lists every difference. A larger
// max.message.bytes is no difference.
func (a *Admin) CheckTopics(ctx context.Context, topics []Topic) error {
	if len(topics) == 0 {
		return nil
	}
	details, err := a.cl.ListTopics(ctx, names(topics)...)
	if err != nil {
		return fmt.Errorf("list topics: %w", err)
	}
	var diffs []error
	var present []Topic
	for _, t := range topics {
		d, ok := details[t.Name()]
		if !ok || d.Err != nil {
			diffs = append(diffs, fmt.Errorf("topic %s: missing", t.Name()))
			continue
		}
		if len(d.Partitions) != t.Partitions() {
			diffs = append(diffs, fmt.Errorf("topic %s: %d partitions, want %d", t.Name(), len(d.Partitions), t.Partitions()))
		}
		present = append(present, t)
	}
	return errors.Join(append(diffs, a.checkConfigs(ctx, present))...)
}

func (a *Admin) checkConfigs(ctx context.Context, topics []Topic) error {
	described, err := a.cl.DescribeTopicConfigs(ctx, names(topics)...)
	if err != nil {
		return fmt.Errorf("describe topics: %w", err)
	}
	var diffs []error
	for _, t := range topics {
		topic, err := described.On(t.Name(), nil)
		if err = errors.Join(err, topic.Err); err != nil {
			diffs = append(diffs, fmt.Errorf("describe topic %s: %w", t.Name(), err))
		}
		want := TopicConfigs(t)
		for _, c := range topic.Configs {
			w, declared := want[c.Key]
			if !declared || c.MaybeValue() == w {
				continue
			}
			if have, err := strconv.Atoi(c.MaybeValue()); err == nil && c.Key == "max.message.bytes" && have > maxBatchBytes(t) {
				continue
			}
			diffs = append(diffs, fmt.Errorf("topic %s: %s is %s, want %s", t.Name(), c.Key, c.MaybeValue(), w))
		}
	}
	return errors.Join(diffs...)
}

// StartOffsets returns the first offset that each partition still has.
func (a *Admin) StartOffsets(ctx context.Context, topic Topic) (map[int32]int64, error) {
	listed, err := a.cl.ListStartOffsets(ctx, topic.Name())
	return offsets("start", topic, listed, err)
}

// EndOffsets returns each partition's high watermark: the offset that its next record will get.
func (a *Admin) EndOffsets(ctx context.Context, topic Topic) (map[int32]int64, error) {
	listed, err := a.cl.ListEndOffsets(ctx, topic.Name())
	return offsets("end", topic, listed, err)
}

// OffsetsSince returns, for each partition, the first offset whose record has a timestamp of t or later: every such record
// is there or behind it. Where there is none it is the end.
func (a *Admin) OffsetsSince(ctx context.Context, topic Topic, t time.Time) (map[int32]int64, error) {
	listed, err := a.cl.ListOffsetsAfterMilli(ctx, t.UnixMilli(), topic.Name())
	return offsets("time", topic, listed, err)
}

func offsets(what string, topic Topic, listed kadm.ListedOffsets, err error) (map[int32]int64, error) {
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("%s offsets of %s: %w", what, topic.Name(), err)
	}
	byPartition := make(map[int32]int64, topic.Partitions())
	listed.Each(func(o kadm.ListedOffset) { byPartition[o.Partition] = o.Offset })
	return byPartition, nil
}

// CommittedOffsets returns where a group stands in a topic; partitions without a commit are absent.
func (a *Admin) CommittedOffsets(ctx context.Context, group string, topic Topic) (map[int32]Committed, error) {
	fetched, err := a.cl.FetchOffsets(ctx, group)
	if err == nil {
		err = fetched.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("committed offsets of %s: %w", group, err)
	}
	byPartition := map[int32]Committed{}
	for p, o := range fetched[topic.Name()] {
		if o.At >= 0 {
			byPartition[p] = Committed{Offset: o.At, Metadata: o.Metadata}
		}
	}
	return byPartition, nil
}
