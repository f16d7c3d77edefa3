package identity

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"sync"
)

// SignatureHeader is the Kafka header that carries the signature of a record's value.
const SignatureHeader = "weir-signature"

const (
	signaturePrefix = "v1="
	minSecretBytes  = 32
)

// Secret is the HMAC key which admission, breaker and attributor share by file. It prints as stars.
type Secret struct {
	key []byte
	// macs are of *mac, which have taken in the key: doing that anew for each signature costs as much as a short message.
	macs *sync.Pool
}

// mac is a hash with the memory that a signature needs besides.
type mac struct {
	hash hash.Hash
	sum  [sha256.Size]byte
	// message and text keep their size from one use to the next: a receipt's, which is bounded.
	message, text []byte
}

// of is the HMAC of a message, until the next one.
func (m *mac) of(message []byte) []byte {
	m.hash.Reset()
	m.hash.Write(message)
	return m.hash.Sum(m.sum[:0])
}

// NewSecret takes a key of at least 32 bytes.
func NewSecret(key []byte) (Secret, error) {
	if len(key) < minSecretBytes {
		return Secret{}, fmt.Errorf("identity: an HMAC secret has at least %d bytes, this one %d", minSecretBytes, len(key))
	}
	key = bytes.Clone(key)
	return Secret{key: key, macs: &sync.Pool{New: func() any { return &mac{hash: hmac.New(sha256.New, key)} }}}, nil
}

// String keeps the key out of logs.
func (s Secret) String() string { return "*****" }

// GoString keeps the key out of %#v.
func (s Secret) GoString() string { return "identity.Secret(*****)" }

// IsZero reports whether there is no key; such a secret signs and verifies nothing.
func (s Secret) IsZero() bool { return len(s.key) == 0 }

func (s Secret) mac(body []byte) [sha256.Size]byte {
	m := s.macs.Get().(*mac)
	defer s.macs.Put(m)
	return [sha256.Size]byte(m.of(body))
}

// Sign returns the value of the weir-signature header for a record value: "v1=" and the HMAC-SHA256 in hex.
// With a zero secret it returns "".
func Sign(s Secret, body []byte) string {
	if s.IsZero() {
		return ""
	}
	sum := s.mac(body)
	var room [len(signaturePrefix) + 2*sha256.Size]byte
	return string(hex.AppendEncode(append(room[:0], signaturePrefix...), sum[:]))
}

// Verify reports whether signature is Sign(s, body). It takes the same time wherever the two differ.
func Verify(s Secret, body []byte, signature string) bool {
	if s.IsZero() {
		return false
	}
	return hmac.Equal([]byte(signature), []byte(Sign(s, body)))
}
