package costattributor

import (
	"strconv"
	"strings"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/gen/topics"
)

// Headers of a dead letter, beside the original ones.
const (
	headerPrefix    = "weir-dlq-"
	headerReason    = headerPrefix + "reason"
	headerDetail    = headerPrefix + "detail"
	headerTopic     = headerPrefix + "topic"
	headerPartition = headerPrefix + "partition"
	headerOffset    = headerPrefix + "offset"
	headerTimestamp = headerPrefix + "timestamp"
)

// headerRerouted marks a record that was moved into its tenant's partition.
const headerRerouted = "weir-rerouted"

// maxDetail bounds the detail in bytes: it may quote the event.
const maxDetail = 500

// deadLetter is the record with its own key, bytes and headers, and why it could not be booked. Headers of an earlier dead
// letter (a replay) give way.
func deadLetter(r bus.Record, why *reject) bus.Record {
	detail := why.detail
	if len(detail) > maxDetail {
		detail = strings.ToValidUTF8(detail[:maxDetail], "")
	}
	out := bus.NewRecord(topics.UsageDeadletter, string(r.Key), r.Key, r.Value)
	out.Timestamp = recordedAt(r)
	for _, h := range r.Headers {
		if !strings.HasPrefix(h.Key, headerPrefix) {
			out.Headers = append(out.Headers, h)
		}
	}
	for _, h := range [...][2]string{
		{headerReason, why.reason}, {headerDetail, detail}, {headerTopic, r.Topic.Name()}, {headerPartition, strconv.Itoa(int(r.Partition))},
		{headerOffset, strconv.FormatInt(r.Offset, 10)}, {headerTimestamp, strconv.FormatInt(r.Timestamp.UnixMilli(), 10)},
	} {
		out.Headers = append(out.Headers, bus.Header{Key: h[0], Value: []byte(h[1])})
	}
	return out
}

// rerouted is the record for its tenant's partition, with the key that leads there and its own timestamp.
func rerouted(r bus.Record, tenant string) bus.Record {
	out := bus.NewRecord(r.Topic, tenant, []byte(tenant), r.Value, append(append([]bus.Header{}, r.Headers...), bus.Header{Key: headerRerouted, Value: []byte("1")})...)
	out.Timestamp = r.Timestamp
	return out
}
