package main

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/domain/recovery"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/outbox"
	"github.com/weir-project/weir/pkg/pgstore"
)

// moving says what of the books still moves. While anything does, a difference may be none.
type moving struct {
	log    *bus.Conn
	rows   *pgstore.Store
	outbox *outbox.Session
}

// now lists what moves at this moment: a recovery of Redis, or counters in it that only another build can read, events on
// their way to Kafka, records that consumers have not finished. Empty = settled.
func (m moving) now(ctx context.Context) ([]string, error) {
	out, err := m.redis(ctx)
	if err != nil {
		return nil, err
	}
	backlog, err := m.outbox.Measure(ctx)
	if err != nil {
		return nil, awayFrom("postgres", err)
	}
	if backlog.Rows > 0 {
		out = append(out, fmt.Sprintf("%d rows of the outbox are not published, the oldest for %s", backlog.Rows, backlog.Oldest.Round(time.Second)))
	}
	behind, err := lag(ctx, m.log, wholeWay())
	if err != nil {
		return nil, err
	}
	if behind > 0 {
		out = append(out, fmt.Sprintf("consumers are %d records behind", behind))
	}
	return out, nil
}

// redis lists why nothing that is read of Redis means anything now.
func (m moving) redis(ctx context.Context) (out []string, err error) {
	row, known, err := m.rows.EpochRow(ctx)
	if err != nil {
		return nil, awayFrom("postgres", err)
	}
	if row.Recovering {
		out = append(out, fmt.Sprintf("a recovery runs: the counters of epoch %d are being made anew in Redis%s", row.Epoch, leasesLeft(row)))
	}
	if known && row.Layout != budgetstore.Layout {
		out = append(out, otherLayout(row.Layout).Error())
	}
	return out, nil
}

// leasesLeft says how long a recovery still waits for leases, which is most of what it takes.
func leasesLeft(row pgstore.RedisEpoch) string {
	if left := recovery.LeasesEnd(row.LastLease(), row.LeaseReach).Sub(row.Now); left > 0 && row.BarrierAt.IsZero() {
		return fmt.Sprintf(", in about %s, when no lease of the lost ones runs any more", left.Round(time.Second))
	}
	return ""
}

// otherLayout says that this build cannot read what is in Redis.
func otherLayout(layout int) error {
	return fmt.Errorf("redis is laid out by another build (number %d, this one's is %d): what this one would read there means nothing", layout, budgetstore.Layout)
}

// How soon, and then how often, a person who waits is told for what.
const (
	sayAfter = time.Second
	sayEvery = 5 * time.Second
)

// settle waits until nothing moves, and says meanwhile what does; it returns what still does when the time is over.
func settle(ctx context.Context, limit time.Duration, moves func(context.Context) ([]string, error), say func(format string, args ...any)) (left []string, err error) {
	next := time.Now().Add(sayAfter)
	err = until(ctx, limit, func() (bool, error) {
		left, err = moves(ctx)
		if err == nil && len(left) > 0 && time.Now().After(next) {
			say("audit waits, at most %s: %s", limit, strings.Join(left, "; "))
			next = time.Now().Add(sayEvery)
		}
		return len(left) == 0, err
	})
	return left, err
}

// mark is where the log and Redis stand.
type mark struct {
	epoch int64
	ends  map[string]int64 // topic/partition → end offset
}

func (m moving) mark(ctx context.Context) (mark, error) {
	out := mark{ends: map[string]int64{}}
	var err error
	if out.epoch, _, err = m.rows.Epoch(ctx); err != nil {
		return mark{}, awayFrom("postgres", err)
	}
	admin, err := m.log.Admin()
	if err != nil {
		return mark{}, awayFrom("kafka", err)
	}
	defer admin.Close()
	for _, topic := range []bus.Topic{topics.UsageEvents, topics.LedgerEntries, topics.BudgetWindows} {
		ends, err := admin.EndOffsets(ctx, topic)
		if err != nil {
			return mark{}, awayFrom("kafka", err)
		}
		for p, end := range ends {
			out.ends[fmt.Sprintf("%s/%d", topic.Name(), p)] = end
		}
	}
	return out, nil
}

// since lists what has moved since a mark, and what moves now.
func (m moving) since(ctx context.Context, was mark) ([]string, error) {
	out, err := m.now(ctx)
	if err != nil {
		return nil, err
	}
	is, err := m.mark(ctx)
	if err != nil {
		return nil, err
	}
	if is.epoch != was.epoch {
		out = append(out, fmt.Sprintf("Redis was lost while it was read: epoch %d became %d", was.epoch, is.epoch))
	}
	if !maps.Equal(is.ends, was.ends) {
		out = append(out, "the log grew while it was read")
	}
	return out, nil
}
