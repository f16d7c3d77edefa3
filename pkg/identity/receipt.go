package identity

import (
	"crypto/hmac"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// receiptPrefix separates receipts from record values, which the same secret signs.
const receiptPrefix = "weir receipt v1\x00"

const maxReceipt = 8 << 10

// receiptVersion is the first byte of a payload.
const receiptVersion = 1

// Receipt is what a reservation was, signed: with it settle, release and extend work even when Redis has forgotten the
// hold. Money is nano-dollars, times are Unix nanoseconds, tokens are counts.
type Receipt struct {
	Tenant        string
	ReservationID string
	// ReservedAt is Redis' clock at the reservation; with the id it names one hold for ever.
	ReservedAt int64
	// ExpiresAt is the end of the first lease.
	ExpiresAt int64
	// Fingerprint is the hash of the reservation's content: same id, other content is a conflict.
	Fingerprint [16]byte
	Epoch       int64
	// Day (YYYYMMDD) and Month (YYYYMM) are the windows it was charged to, in the tenant's calendar.
	Day   int32
	Month int32

	HeldNanos    int64
	InputTokens  int64
	OutputTokens int64
	// Call is what was asked, as admission keeps it with the hold: provider, model, estimate, price version, lineage.
	Call []byte
}

// SignReceipt returns base64url(payload).base64url(HMAC). The same receipt gives the same text. With a zero secret the
// answer is an error, never an unsigned receipt.
func SignReceipt(s Secret, r Receipt) (string, error) {
	if s.IsZero() {
		return "", errors.New("identity: no secret to sign receipts with")
	}
	m := s.macs.Get().(*mac)
	defer s.macs.Put(m)
	m.message = r.append(append(m.message[:0], receiptPrefix...))
	enc := base64.RawURLEncoding
	m.text = append(enc.AppendEncode(m.text[:0], m.message[len(receiptPrefix):]), '.')
	m.text = enc.AppendEncode(m.text, m.of(m.message))
	return string(m.text), nil
}

// append is the payload, which every reservation signs and carries to its caller: a version, tenant and id with their
// lengths, the fingerprint, numbers as varints, and the call to the end.
func (r Receipt) append(b []byte) []byte {
	b = append(b, receiptVersion)
	for _, s := range [...]string{r.Tenant, r.ReservationID} {
		b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
	}
	b = append(b, r.Fingerprint[:]...)
	for _, n := range [...]int64{r.ReservedAt, r.ExpiresAt, r.Epoch, int64(r.Day), int64(r.Month), r.HeldNanos, r.InputTokens, r.OutputTokens} {
		b = binary.AppendVarint(b, n)
	}
	return append(b, r.Call...)
}

// VerifyReceipt checks and decodes a receipt. Every failure is ErrUnauthenticated: a receipt is a proof or nothing.
func VerifyReceipt(s Secret, text string) (Receipt, error) {
	head, tail, ok := strings.Cut(text, ".")
	if !ok || len(text) > maxReceipt || strings.ContainsAny(text, "\r\n") || s.IsZero() { // the decoder skips newlines
		return Receipt{}, fmt.Errorf("%w: not a receipt", ErrUnauthenticated)
	}
	enc := base64.RawURLEncoding.Strict()
	message := append(make([]byte, 0, len(receiptPrefix)+len(head)), receiptPrefix...)
	message, err := enc.AppendDecode(message, []byte(head))
	if err != nil {
		return Receipt{}, fmt.Errorf("%w: not a receipt", ErrUnauthenticated)
	}
	sum, err := enc.DecodeString(tail)
	want := s.mac(message)
	if err != nil || !hmac.Equal(sum, want[:]) {
		return Receipt{}, fmt.Errorf("%w: the receipt's signature does not match", ErrUnauthenticated)
	}
	return decodeReceipt(message[len(receiptPrefix):])
}

// decodeReceipt reads a payload of a version that is known here.
func decodeReceipt(payload []byte) (Receipt, error) {
	var r Receipt
	ok := len(payload) > 0 && payload[0] == receiptVersion
	if ok {
		r, ok = readReceipt(payload[1:])
	}
	if !ok {
		return Receipt{}, fmt.Errorf("%w: receipt payload", ErrUnauthenticated)
	}
	if r.Tenant == "" || r.ReservationID == "" || r.ReservedAt <= 0 {
		return Receipt{}, fmt.Errorf("%w: the receipt names no reservation", ErrUnauthenticated)
	}
	return r, nil
}

// readReceipt is the inverse of append, after the version.
func readReceipt(rest []byte) (r Receipt, ok bool) {
	ok = true
	take := func(n uint64) []byte {
		if ok = ok && n <= uint64(len(rest)); !ok {
			return nil
		}
		taken := rest[:n]
		rest = rest[n:]
		return taken
	}
	for _, s := range [...]*string{&r.Tenant, &r.ReservationID} {
		n, size := binary.Uvarint(rest)
		take(uint64(max(size, 0)))
		*s = string(take(n))
	}
	copy(r.Fingerprint[:], take(uint64(len(r.Fingerprint))))
	var day, month int64
	for _, to := range [...]*int64{&r.ReservedAt, &r.ExpiresAt, &r.Epoch, &day, &month, &r.HeldNanos, &r.InputTokens, &r.OutputTokens} {
		n, size := binary.Varint(rest)
		ok = ok && size > 0
		take(uint64(max(size, 0)))
		*to = n
	}
	r.Day, r.Month, r.Call = int32(day), int32(month), rest
	return r, ok
}
