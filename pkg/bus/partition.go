package bus

import "github.com/twmb/franz-go/pkg/kgo"

// javas is Kafka's default partitioner before 3.3, and later's for records with a key: murmur2, sign bit cleared, modulo n.
// With a key it only hashes, so all callers may share it.
var javas = kgo.StickyKeyPartitioner(nil).ForTopic("")

// PartitionFor returns the partition of a key among n: Kafka's default, so that Java clients agree. librdkafka's default
// (consistent_random, CRC32) does not. n < 1 yields 0. An empty key has a fixed partition too; there is no random one.
func PartitionFor(key []byte, n int) int32 {
	if n < 1 {
		return 0
	}
	if key == nil {
		key = []byte{} // kgo sends a record without a key anywhere
	}
	return int32(javas.Partition(&kgo.Record{Key: key}, n))
}
