package bus

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Header is one record header. Keys may repeat.
type Header struct {
	Key   string
	Value []byte
}

// Record is one record, read or to be written. Key and Value of a record that was read are shared with the fetch
// buffer: keep them, but do not change them.
type Record struct {
	Topic     Topic
	Partition int32
	// Offset is set by the broker; it is ignored when producing.
	Offset int64
	Key    []byte
	// Value nil is a tombstone on a compacted topic.
	Value   []byte
	Headers []Header
	// Timestamp is the producer's clock (CreateTime), in UTC; the zero value means "now" when producing.
	Timestamp time.Time
}

// NewRecord returns a record for the partition that routingKey (nearly always the tenant) names. The record's own key
// may be longer: budget.windows.v1 is keyed by tenant, scope and window but routed by tenant alone.
func NewRecord(topic Topic, routingKey string, key, value []byte, headers ...Header) Record {
	return Record{
		Topic:     topic,
		Partition: PartitionFor([]byte(routingKey), topic.Partitions()),
		Key:       key,
		Value:     value,
		Headers:   headers,
	}
}

// Header returns the value of the first header with that key, and whether there is one.
func (r Record) Header(key string) ([]byte, bool) {
	for _, h := range r.Headers {
		if h.Key == key {
			return h.Value, true
		}
	}
	return nil, false
}

// Size is what TopicSpec.MaxRecordBytes bounds: key, value and headers, in bytes.
func (r Record) Size() int {
	n := len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		n += len(h.Key) + len(h.Value)
	}
	return n
}

func fromKgo(topic Topic, k *kgo.Record) Record {
	r := Record{Topic: topic, Partition: k.Partition, Offset: k.Offset, Key: k.Key, Value: k.Value, Timestamp: k.Timestamp.UTC()}
	if len(k.Headers) > 0 {
		r.Headers = make([]Header, len(k.Headers))
		for i, h := range k.Headers {
			r.Headers[i] = Header{Key: h.Key, Value: h.Value}
		}
	}
	return r
}

func toKgo(r Record) *kgo.Record {
	k := &kgo.Record{Topic: r.Topic.Name(), Partition: r.Partition, Key: r.Key, Value: r.Value, Timestamp: r.Timestamp}
	for _, h := range r.Headers {
		k.Headers = append(k.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
	}
	return k
}
