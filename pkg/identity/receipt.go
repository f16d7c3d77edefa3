package identity

import (
	"bytes"
	"crypto/hmac"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/weir-project/weir/pkg/jsonwrite"
)

// receiptPrefix separates receipts from record values, which the same secret signs.
const receiptPrefix = "weir receipt v1\x00"

const maxReceipt = 8 << 10

// Receipt is what a reservation was, signed: with it settle, release and extend work even when Redis has forgotten the
// hold (design.md 4.3). Money is nano-dollars, times are Unix nanoseconds, tokens are counts.
type Receipt struct {
	Tenant        string `json:"t"`
	ReservationID string `json:"r"`
	// ReservedAt is Redis' clock at the reservation; with the id it names one hold for ever.
	ReservedAt int64 `json:"at"`
	// ExpiresAt is the end of the first lease.
	ExpiresAt int64 `json:"exp"`
	// Fingerprint is the hash of the reservation's content: same id, other content is a conflict.
	Fingerprint string `json:"f"`
	Epoch       int64  `json:"e"`
	// Day (YYYYMMDD) and Month (YYYYMM) are the windows it was charged to, in the tenant's calendar.
	Day   int32 `json:"d"`
	Month int32 `json:"m"`

	HeldNanos    int64 `json:"n"`
	InputTokens  int64 `json:"it,omitempty"`
	OutputTokens int64 `json:"ot,omitempty"`
	// Call is what was asked, as admission keeps it with the hold: provider, model, estimate, price version, lineage.
	Call json.RawMessage `json:"c,omitempty"`
}

// SignReceipt returns base64url(payload).base64url(HMAC). The same receipt gives the same text. With a zero secret the
// answer is an error, never an unsigned receipt.
func SignReceipt(s Secret, r Receipt) (string, error) {
	if s.IsZero() {
		return "", fmt.Errorf("identity: no secret to sign receipts with")
	}
	payload := r.appendJSON(make([]byte, 0, 256+len(r.Call)))
	enc := base64.RawURLEncoding
	var usual [1536]byte // on the stack: only the text itself is kept
	text := append(enc.AppendEncode(usual[:0], payload), '.')
	return string(enc.AppendEncode(text, s.mac(receiptPrefix, payload))), nil
}

// appendJSON is what encoding/json makes of r, which every reservation signs. Call must be compact JSON.
func (r Receipt) appendJSON(b []byte) []byte {
	o := jsonwrite.New(b)
	o.String("t", r.Tenant)
	o.String("r", r.ReservationID)
	o.Int("at", r.ReservedAt)
	o.Int("exp", r.ExpiresAt)
	o.String("f", r.Fingerprint)
	o.Int("e", r.Epoch)
	o.Int("d", int64(r.Day))
	o.Int("m", int64(r.Month))
	o.Int("n", r.HeldNanos)
	o.OptionalInt("it", r.InputTokens)
	o.OptionalInt("ot", r.OutputTokens)
	if len(r.Call) > 0 {
		o.Raw("c", r.Call)
	}
	return o.End()
}

// VerifyReceipt checks and decodes a receipt. Every failure is ErrUnauthenticated: a receipt is a proof or nothing.
func VerifyReceipt(s Secret, text string) (Receipt, error) {
	head, tail, ok := strings.Cut(text, ".")
	if !ok || len(text) > maxReceipt || strings.ContainsAny(text, "\r\n") || s.IsZero() { // the decoder skips newlines
		return Receipt{}, fmt.Errorf("%w: not a receipt", ErrUnauthenticated)
	}
	enc := base64.RawURLEncoding.Strict()
	payload, err := enc.DecodeString(head)
	if err != nil {
		return Receipt{}, fmt.Errorf("%w: not a receipt", ErrUnauthenticated)
	}
	sum, err := enc.DecodeString(tail)
	if err != nil || !hmac.Equal(sum, s.mac(receiptPrefix, payload)) {
		return Receipt{}, fmt.Errorf("%w: the receipt's signature does not match", ErrUnauthenticated)
	}
	return decodeReceipt(payload)
}

func decodeReceipt(payload []byte) (Receipt, error) {
	dec := json.NewDecoder(bytes.NewReader(payload))
	var r Receipt
	if err := dec.Decode(&r); err != nil {
		return Receipt{}, fmt.Errorf("%w: receipt payload", ErrUnauthenticated)
	}
	if _, err := dec.Token(); err != io.EOF {
		return Receipt{}, fmt.Errorf("%w: receipt payload", ErrUnauthenticated)
	}
	if r.Tenant == "" || r.ReservationID == "" || r.ReservedAt <= 0 {
		return Receipt{}, fmt.Errorf("%w: the receipt names no reservation", ErrUnauthenticated)
	}
	return r, nil
}
