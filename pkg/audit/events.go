package audit

import (
	"bytes"
	"context"
	"fmt"
	"strconv"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/usageevent"
)

// checkEvents holds every usage event against journal and dead letters: each must be in one of them, or be the same as
// one that is (I3, I4); and every entry must come from an event that is in the log.
func checkEvents(ctx context.Context, log *bus.Conn, j *journal, r *Report) error {
	dead, err := readDeadLetters(ctx, log, r)
	if err != nil {
		return err
	}
	starts := map[int32]int64{}
	seen := map[position]bool{}
	for p := range int32(topics.UsageEvents.Partitions()) {
		first := true
		err := log.ReadPartition(ctx, topics.UsageEvents, p, -1, -1, func(rec bus.Record) error {
			if first {
				starts[p], first = rec.Offset, false
			}
			r.Events++
			at := position{rec.Partition, rec.Offset}
			seen[at] = true
			checkEvent(rec, at, j, dead, r)
			return nil
		})
		if err != nil {
			return err
		}
	}
	for _, e := range j.entries {
		at := position{e.GetSourcePartition(), e.GetSourceOffset()}
		if e.GetSourceTopic() == topics.UsageEvents.Name() && at.offset >= starts[at.partition] && !seen[at] {
			r.differ("journal", e.GetId(), fmt.Sprintf("a usage event at %d/%d", at.partition, at.offset), "none in the log")
		}
	}
	return nil
}

func checkEvent(rec bus.Record, at position, j *journal, dead map[position][]byte, r *Report) {
	what := fmt.Sprintf("usage event %d/%d", at.partition, at.offset)
	ev, err := usageevent.Decode(rec.Value, rec.Header)
	if n, ok := j.bySource[at]; ok {
		e := j.entries[n]
		if err != nil || ev.ID != e.GetEventId() || ev.Source != e.GetSource() {
			r.differ("journal", e.GetId(), what+" with its source and id", fmt.Sprintf("%s %s", ev.Source, ev.ID))
		}
		return
	}
	if value, ok := dead[at]; ok {
		if !bytes.Equal(value, rec.Value) {
			r.differ("dead letters", what, "the original bytes", "others")
		}
		return
	}
	if err == nil {
		_, counted := j.events[identity{ev.Subject, ev.Source, ev.ID}]
		_, response := j.responses[identity{ev.Subject, ev.Data.Provider, ev.Data.ResponseID}]
		if counted || response && ev.Data.ResponseID != "" || countedFor(j, ev) {
			r.Duplicates++
			return
		}
	}
	r.differ("log", what+" "+ev.ID, "a journal entry or a dead letter", "neither")
}

// countedFor finds an event without subject (its tenant came from its execution token) under any tenant.
func countedFor(j *journal, ev usageevent.Event) bool {
	if ev.Subject != "" {
		return false
	}
	for id := range j.events {
		if id.source == ev.Source && id.id == ev.ID {
			return true
		}
	}
	return false
}

// readDeadLetters maps the place of each original to its bytes.
func readDeadLetters(ctx context.Context, log *bus.Conn, r *Report) (map[position][]byte, error) {
	dead := map[position][]byte{}
	for p := range int32(topics.UsageDeadletter.Partitions()) {
		err := log.ReadPartition(ctx, topics.UsageDeadletter, p, -1, -1, func(rec bus.Record) error {
			r.DeadLetters++
			at, err := origin(rec)
			if err != nil {
				r.differ("dead letters", fmt.Sprintf("%d/%d", rec.Partition, rec.Offset), "the place of its original", err.Error())
				return nil
			}
			dead[at] = rec.Value
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return dead, nil
}

func origin(rec bus.Record) (position, error) {
	p, _ := rec.Header("weir-dlq-partition")
	o, _ := rec.Header("weir-dlq-offset")
	partition, err := strconv.ParseInt(string(p), 10, 32)
	if err != nil {
		return position{}, fmt.Errorf("header weir-dlq-partition: %w", err)
	}
	offset, err := strconv.ParseInt(string(o), 10, 64)
	if err != nil {
		return position{}, fmt.Errorf("header weir-dlq-offset: %w", err)
	}
	return position{int32(partition), offset}, nil
}
