// Package usageevent reads and writes usage events: CloudEvents 1.0 in JSON, as they stand in usage.events.v1.
//
// It owns: the envelope (structured mode with or without a content-type header, binary mode with ce_ headers), the
// members of `data` (docs/usage-event.md), and which texts are not ids.
// It does not own: who may send an event (pkg/identity), what the usage means (pkg/domain/usage) and what it costs.
//
// Invariants:
//   - Decode never panics and never guesses about money or identity: an id that is empty, null or the text of a null
//     ("None") is an error, and numbers are read from their text.
//   - Every error is an *Error whose Reason is the dead letter's.
//   - Encode is a pure function of the event. ContentHash does not depend on white space or on the order of members.
//
// Bounds: MaxBytes, MaxID, MaxText, MaxMeters, MaxBranches.
package usageevent
