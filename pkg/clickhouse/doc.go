// Package clickhouse writes the books into ClickHouse; it is the only package that knows the driver.
//
// It owns: the connection (HTTP or native, by URL), the ledger sink (journal to agent_cost_ledger, without loss and without
// a double row), and the insert of window totals. It does not own the tables (migrations/clickhouse) nor what they mean.
//
// How a journal range becomes rows exactly once:
//   - One writer per partition: the consumer group sees to it.
//   - Before an insert the range from..to is written into the group's committed-offset metadata. So a range is never
//     recomputed: after a crash the same range is read again and inserted with the same token.
//   - One insert = one block = one ClickHouse partition (month), with the token topic|partition|from|to|month and every
//     setting that matters sent along. The table's deduplication window drops a block that is already there.
//   - A partition that was taken over with a pending range is asked which of its offsets are there already: this holds even
//     when the window has forgotten the token.
//   - Rows are a pure function of the journal record: no clock, no random id, members of maps in order.
//
// What no window closes: a dead owner whose insert arrives after its successor has asked, and after the token was
// forgotten (10,000 blocks later). `weir audit` finds it.
//
// Bounds: one range has at most ConsumerConfig.MaxBatch records; the id filter of a partition is that of pkg/journal.
package clickhouse
