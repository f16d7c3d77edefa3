// Package audit recomputes the books from the Kafka log alone and compares everything else with them.
//
// It is a second opinion: it imports money and the codecs (weirv1, usageevent, bus) and never the
// pricing, ledger, window or admission code, so that a mistake there cannot hide in here. It reads; it repairs nothing.
//
// What it checks, by invariant: I3 and I4, every usage event is one journal entry or one dead letter; I5, quantity x
// rate, sums, markup and nano-dollars of every entry; I6, ClickHouse's ledger and windows, the window topic and Redis'
// counters equal what the journal says, and so does the base of the last recovery, whose markers stand in each partition.
//
// Bounds: it holds about 1 KB per journal entry in memory. An empty log is a difference, never "ok".
package audit
