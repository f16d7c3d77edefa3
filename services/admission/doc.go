// Package admission is the gate: it decides whether a tenant may spend before a call is made, and takes what was spent
// after it.
//
// It owns: the API over HTTP/JSON and over gRPC, the life of a reservation, the decisions topic, the reaper, and the feeding of the
// budget store from the journal, the window totals and the revocations. It does not own: the counters and their rule
// (pkg/budgetstore, pkg/domain/admit), what is durable (pkg/pgstore), prices and contracts (catalogs), the ledger. Below it, and
// knowing nothing of it: whether this replica may serve (epoch), the open holds that it remembers (holdcache), and what of its
// decisions waits for Kafka (decisions).
//
// Invariants:
//   - Fail closed: whatever is away, slow, empty or not loaded yet, the answer is a refusal with 503, never an admission
//     and never a 401.
//   - Postgres decides how a reservation ends; Redis follows, at once or through the journal, exactly once.
//   - Money leaves and enters as decimal strings, and is int64 nano-dollars or exact decimals in between.
//
// Bounds: request bodies and messages 1 MiB (events 4 MiB), batches of 256, one deadline per request, 1024 gRPC calls in
// flight on one connection, the queue of decisions (package decisions), everything else by
// the stores' own bounds.
package admission
