package admission

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"

	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/usageevent"
)

// fingerprint names what a settle says, whatever becomes of it: the same again is a repeat, other content a conflict. It
// is compared within one reservation only, so what the reservation says is no part of it. Neither is the receipt; numbers
// in the provider's usage are compared as written.
func (c *charge) fingerprint(req *settleRequest, s *subject) []byte {
	var room [1024]byte // enough for nearly every settle, without the heap
	b := room[:0]
	for _, text := range [...]string{cmp.Or(req.Model, s.call.Model), req.API, req.ServiceTier, c.cacheHit, c.status,
		usageevent.Clean(req.ErrorCode, usageevent.MaxText), req.ResponseID, req.Traceparent, req.Tracestate} {
		b = appendSized(b, text)
	}
	switch {
	case c.whole.Bytes() != nil:
		b = append(append(b, 'u'), c.usage...)
	case given(req.Usage):
		b = append(append(b, 'u'), usageevent.Canonical(req.Usage)...)
	default:
		b = appendQuantities(append(b, 'm'), c.meters)
	}
	sum := sha256.Sum256(b)
	return sum[:]
}

// appendSized appends a text behind its length, so that no two lists of texts are the same bytes.
func appendSized(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// appendQuantities appends quantities, sorted by name.
func appendQuantities(b []byte, m map[string]money.Decimal) []byte {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		b = appendSized(appendSized(b, name), m[name].String())
	}
	return b
}
