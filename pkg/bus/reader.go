package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// quiet is after how long without records a reader asks again where the log starts: retention may have removed the
// records that it waits for.
const quiet = time.Second

// ReadPartition calls fn for the records of one partition with from <= offset < to, in order, without a group, and
// returns when they are through. from < 0 means the start of the log, to < 0 its end (the high watermark) now. A from
// below the start of the log begins at its start; compaction may leave gaps. An error of fn ends the reading.
func (c *Conn) ReadPartition(ctx context.Context, topic Topic, partition int32, from, to int64, fn func(Record) error) error {
	fail := func(err error) error { return fmt.Errorf("read %s/%d: %w", topic.Name(), partition, err) }
	next := map[int32]int64{partition: max(0, from)}
	cl, err := c.client(kgo.ConsumePartitions(startAt(topic, next)))
	if err != nil {
		return fail(err)
	}
	defer cl.Close()
	ends, err := newAdmin(cl).EndOffsets(ctx, topic)
	if err != nil {
		return fail(err)
	}
	end, ok := ends[partition]
	if !ok {
		return fail(errors.New("no such partition"))
	}
	if to < 0 || to > end {
		to = end
	}
	for next[partition] < to {
		records, err := c.poll(ctx, cl, topic, next)
		if err != nil {
			return fail(err)
		}
		for _, r := range records {
			if r.Offset >= to {
				return nil
			}
			if err := fn(r); err != nil {
				return fail(fmt.Errorf("offset %d: %w", r.Offset, err))
			}
		}
	}
	return nil
}

// poll returns the next records and moves next past them. Where it is quiet, next is moved to the start of the log if
// that has overtaken it, so that waiting for removed records ends.
func (c *Conn) poll(ctx context.Context, cl *kgo.Client, topic Topic, next map[int32]int64) ([]Record, error) {
	pollCtx, cancel := context.WithTimeout(ctx, quiet)
	defer cancel()
	fetches := cl.PollRecords(pollCtx, 2000)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	var records []Record
	var failed error
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		if p.Err != nil && !errors.Is(p.Err, context.DeadlineExceeded) {
			c.metrics.fetchErrors.WithLabelValues(topic.Name()).Inc()
			failed = errors.Join(failed, p.Err)
		}
		for _, k := range p.Records {
			records = append(records, fromKgo(topic, k))
			next[k.Partition] = k.Offset + 1
		}
	})
	// Records come before the error: dropping them would leave a hole, as kgo goes on behind them.
	if len(records) > 0 {
		return records, nil
	}
	if failed != nil {
		return nil, failed
	}
	starts, err := newAdmin(cl).StartOffsets(ctx, topic)
	if err != nil {
		return nil, err
	}
	for p := range next {
		next[p] = max(next[p], starts[p])
	}
	return nil, nil
}

func startAt(topic Topic, next map[int32]int64) map[string]map[int32]kgo.Offset {
	at := make(map[int32]kgo.Offset, len(next))
	for p, o := range next {
		at[p] = kgo.NewOffset().At(o)
	}
	return map[string]map[int32]kgo.Offset{topic.Name(): at}
}
