// Package ledgercodec converts ledger entries between the domain's struct and the records of ledger.entries.v1.
//
// It owns the correspondence of fields, nothing else. Encoding is deterministic: the same entry gives the same bytes, so
// that a re-run writes the identical record. Decoding is strict about money and identity: an amount that does not parse, an
// entry without id or tenant and an unknown kind are errors.
package ledgercodec
