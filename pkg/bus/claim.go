package bus

import (
	"context"
	"fmt"
)

// AtCommitted is what OnAssigned returns to start where the group stands: at the committed offset, or at the start of
// the log where there is none.
const AtCommitted int64 = -1

// maxMetadata is Kafka's default offset.metadata.max.bytes.
const maxMetadata = 4096

// Committed is a group's position in one partition.
type Committed struct {
	// Offset is the next offset to handle; -1 where the group never committed.
	Offset int64
	// Metadata is what Claim.Commit stored with it, "" for the loop's own commits.
	Metadata string
}

// Claim is the right to one partition, from its assignment to its revocation. It is passed by value.
type Claim struct {
	topic      Topic
	partition  int32
	generation int32
	commit     func(ctx context.Context, offset int64, metadata string) error
}

// NewClaim makes a claim whose commits go to commit. It exists for tests of handlers; the consumer makes its own.
func NewClaim(topic Topic, partition, generation int32, commit func(ctx context.Context, offset int64, metadata string) error) Claim {
	return Claim{topic: topic, partition: partition, generation: generation, commit: commit}
}

// Topic is the claimed partition's topic.
func (c Claim) Topic() Topic { return c.topic }

// Partition is the claimed partition.
func (c Claim) Partition() int32 { return c.partition }

// Generation is the group's generation when the partition was assigned. A later owner's is higher, as long as the
// broker remembers the group.
func (c Claim) Generation() int32 { return c.generation }

// Commit stores offset (the next one to handle) and metadata (up to 4,096 bytes) now, and returns when the broker has
// them. A handler uses it to write an intent before an effect, which the next OnAssigned reads back; the loop's own
// commit after the handler replaces it. An owner of an older generation gets an error.
func (c Claim) Commit(ctx context.Context, offset int64, metadata string) error {
	if len(metadata) > maxMetadata {
		return fmt.Errorf("commit %s/%d: metadata of %d bytes exceeds %d", c.topic.Name(), c.partition, len(metadata), maxMetadata)
	}
	return c.commit(ctx, offset, metadata)
}
