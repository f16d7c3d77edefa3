package main

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/clickhouse"
	"github.com/weir-project/weir/pkg/gen/topics"
)

// groupOn is a consumer group and a topic that it reads.
type groupOn struct {
	group string
	topic bus.Topic
}

// wayToTheBill is what must have caught up before a bill is complete.
func wayToTheBill() []groupOn {
	return []groupOn{{"weir.cost-attributor", topics.UsageEvents}, {clickhouse.SinkGroup, topics.LedgerEntries}}
}

// wholeWay is what must have caught up before everything agrees.
func wholeWay() []groupOn {
	return append(wayToTheBill(),
		groupOn{"weir.budget-aggregator", topics.LedgerEntries}, groupOn{"weir.window-sink", topics.BudgetWindows},
		groupOn{"weir.admission-journal", topics.LedgerEntries}, groupOn{"weir.admission-windows", topics.BudgetWindows})
}

// clickhouse opens the instance's ClickHouse and makes sure that it answers.
func (a *app) clickhouse(ctx context.Context) (*clickhouse.Client, error) {
	address, err := a.address("clickhouse", "WEIR_CLICKHOUSE")
	if err != nil {
		return nil, err
	}
	client, err := clickhouse.Open(address)
	if err != nil {
		return nil, misuse("%w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := client.Ping(ctx); err != nil {
		return nil, awayFrom("clickhouse", err)
	}
	return client, nil
}

// lag is how many records the groups have not finished yet.
func lag(ctx context.Context, conn *bus.Conn, way []groupOn) (int64, error) {
	admin, err := conn.Admin()
	if err != nil {
		return 0, awayFrom("kafka", err)
	}
	defer admin.Close()
	var behind int64
	for _, g := range way {
		ends, err := admin.EndOffsets(ctx, g.topic)
		if err != nil {
			return 0, awayFrom("kafka", err)
		}
		committed, err := admin.CommittedOffsets(ctx, g.group, g.topic)
		if err != nil {
			return 0, awayFrom("kafka", err)
		}
		for p, end := range ends {
			at := int64(0)
			if c, ok := committed[p]; ok && c.Offset > 0 {
				at = c.Offset
			}
			behind += max(0, end-at)
		}
	}
	return behind, nil
}

// waitQuiet waits until the groups have caught up; it returns the lag that is left when the time is over.
func waitQuiet(ctx context.Context, conn *bus.Conn, way []groupOn, limit time.Duration) (behind int64, err error) {
	err = until(ctx, limit, func() (bool, error) {
		behind, err = lag(ctx, conn, way)
		return behind == 0, err
	})
	return behind, err
}

// until asks five times a second, until it is done or the time is over, which is no error.
func until(ctx context.Context, limit time.Duration, done func() (bool, error)) error {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("interrupted: %w", ctx.Err())
		case <-deadline.C:
			return nil
		case <-tick.C:
		}
	}
}
