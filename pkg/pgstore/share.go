package pgstore

// shareEpochLock comes before everything else in a transaction that tells Kafka how reservations ended, as a statement of
// its own ($1 = EpochLock): a statement that reads the epoch must have its snapshot from after the lock was granted, or
// it sees the epoch that a marker has just ended. Both may travel in one batch.
const shareEpochLock = "SELECT pg_advisory_xact_lock_shared($1)"
