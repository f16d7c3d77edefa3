// Package bus is how every service reads and writes Kafka; it is the only production package that knows kgo.
//
// It owns: addresses and credentials, the partitioner, one idempotent Producer, one group Consumer loop, readers without
// a group (ReadPartition, Follow), and the administrative questions (topics, offsets).
// It does not own: decoding, deduplication, dead letters. Those are decisions and stay readable in the handlers.
//
// Invariants:
//   - An offset is committed only after Handler returned nil for every record below it.
//   - Records of one partition reach Handler in offset order, one batch at a time, and none is skipped: an error stops
//     that partition (alone) until the same records succeed or the partition is taken away.
//   - A record is written to the partition that PartitionFor names, which is what Java clients choose. librdkafka (kcat,
//     confluent-kafka) hashes otherwise by default, so a reader of a topic with foreign producers must check.
//   - There are no transactions. A crash, a rebalance or a delivery time-out means "again", never "lost"; readers are
//     idempotent by id.
//
// Bounds: ConsumerConfig states what is buffered per partition, ProducerConfig what is in flight; at the bound the
// consumer pauses the partition's fetch and Produce waits for room until its context ends.
package bus
