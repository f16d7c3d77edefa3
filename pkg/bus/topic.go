package bus

// TopicSpec is the declaration of one topic as `topics/<name>.yaml` states it. Only generated code fills it in; it
// exists so that NewTopic needs no long parameter list.
type TopicSpec struct {
	// Name with version, e.g. "ledger.entries.v1".
	Name string
	// Key says in words what the record key holds ("tenant"); it is documentation, nothing is derived from it.
	Key string
	// Partitions is fixed at creation: changing it would move tenants between partitions.
	Partitions int
	// Cleanup is Kafka's cleanup.policy: "delete", "compact" or "compact,delete".
	Cleanup string
	// RetentionMs is retention.ms in milliseconds; -1 keeps for ever.
	RetentionMs int64
	// MinCompactionLagMs is min.compaction.lag.ms in milliseconds; meaningful for compacted topics only.
	MinCompactionLagMs int64
	// MaxRecordBytes bounds key + value + headers of one record, in bytes. Producer refuses more.
	MaxRecordBytes int
}

// Topic is a declared topic. Its fields are unexported and Producer, Consumer and Follower take nothing else, so a
// topic that no file under topics/ declares cannot be written or read by accident. The zero Topic is refused everywhere.
type Topic struct{ spec TopicSpec }

// NewTopic makes a Topic from its declaration. It is for generated code (pkg/gen/topics) and for tests.
func NewTopic(spec TopicSpec) Topic { return Topic{spec: spec} }

// Name is the topic's name with its version.
func (t Topic) Name() string { return t.spec.Name }

// Partitions is the declared partition count.
func (t Topic) Partitions() int { return t.spec.Partitions }

// MaxRecordBytes is the largest key + value + headers of one record, in bytes.
func (t Topic) MaxRecordBytes() int { return t.spec.MaxRecordBytes }

// Compacted reports whether the newest record of a key is kept (cleanup.policy contains "compact").
func (t Topic) Compacted() bool {
	return t.spec.Cleanup == "compact" || t.spec.Cleanup == "compact,delete"
}

// IsZero reports whether t was never declared.
func (t Topic) IsZero() bool { return t.spec.Name == "" }
