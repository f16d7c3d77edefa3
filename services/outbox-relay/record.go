package outboxrelay

import (
	"maps"
	"slices"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/outbox"
)

// Why a row is parked: no attempt could ever succeed. Labels of a metric and values of outbox_parked.reason.
const (
	tooLarge     = "too_large"
	unknownTopic = "unknown_topic" // not one that the relay may write
	badPartition = "bad_partition"
)

// records turns rows into records, in their order, and names the rows that cannot become one.
func records(rows []outbox.Row, writes []bus.Topic, byDefault bus.Topic) ([]bus.Record, []outbox.Parked) {
	out := make([]bus.Record, 0, len(rows))
	var parked []outbox.Parked
	for _, row := range rows {
		r, reason := record(row, writes, byDefault)
		if reason != "" {
			parked = append(parked, outbox.Parked{Seq: row.Seq, Reason: reason})
			continue
		}
		out = append(out, r)
	}
	return out, parked
}

// record keeps Debezium's conventions: key = aggregateid, value = payload, header id = id. Headers are sorted, so that a
// row published twice is the same bytes twice; the timestamp is that of the publication.
func record(row outbox.Row, writes []bus.Topic, byDefault bus.Topic) (r bus.Record, reason string) {
	topic := byDefault
	if row.Topic != "" {
		i := slices.IndexFunc(writes, func(t bus.Topic) bool { return t.Name() == row.Topic })
		if i < 0 {
			return bus.Record{}, unknownTopic
		}
		topic = writes[i]
	}
	r = bus.NewRecord(topic, row.AggregateID, []byte(row.AggregateID), row.Payload, bus.Header{Key: "id", Value: []byte(row.ID)})
	if row.Partition != nil {
		if int(*row.Partition) >= topic.Partitions() {
			return bus.Record{}, badPartition
		}
		r.Partition = *row.Partition
	}
	for _, name := range slices.Sorted(maps.Keys(row.Headers)) {
		if name != "id" { // plain SQL may have put one there; the column holds
			r.Headers = append(r.Headers, bus.Header{Key: name, Value: []byte(row.Headers[name])})
		}
	}
	if r.Size() > topic.MaxRecordBytes() {
		return bus.Record{}, tooLarge
	}
	return r, ""
}
