package identity

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/weir-project/weir/pkg/gen/weirv1"
)

// tokenAlgorithm is the only algorithm of execution tokens, as control.keys.v1 and JOSE spell it.
const tokenAlgorithm = "EdDSA"

// TokenKey is admission's private Ed25519 key. Its id is a hash of the public half, so every replica that reads the
// same file publishes the same record.
type TokenKey struct {
	ID      string
	private ed25519.PrivateKey
}

// NewTokenKey makes a key from random (crypto/rand.Reader outside tests).
func NewTokenKey(random io.Reader) (TokenKey, error) {
	seed := make([]byte, ed25519.SeedSize)
	if _, err := io.ReadFull(random, seed); err != nil {
		return TokenKey{}, fmt.Errorf("identity: read randomness for a token key: %w", err)
	}
	return fromPrivate(ed25519.NewKeyFromSeed(seed)), nil
}

func fromPrivate(private ed25519.PrivateKey) TokenKey {
	return TokenKey{ID: keyID(private.Public().(ed25519.PublicKey)), private: private}
}

// ParseTokenKey reads the PEM text of an Ed25519 key in PKCS8.
func ParseTokenKey(text []byte) (TokenKey, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "PRIVATE KEY" {
		return TokenKey{}, errors.New("identity: token key: no PEM block PRIVATE KEY")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return TokenKey{}, fmt.Errorf("identity: token key: %w", err)
	}
	private, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return TokenKey{}, fmt.Errorf("identity: token key is a %T, need Ed25519", parsed)
	}
	return fromPrivate(private), nil
}

// PEM is the key as ParseTokenKey reads it.
func (k TokenKey) PEM() ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(k.private)
	if err != nil {
		return nil, fmt.Errorf("identity: encode token key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// String is the id: the private half never prints.
func (k TokenKey) String() string { return k.ID }

// GoString keeps the private half out of %#v.
func (k TokenKey) GoString() string { return "identity.TokenKey(" + k.ID + ")" }

// Record is the value that admission publishes on control.keys.v1 under the key's id. It has no end: a key is retired
// by publishing it again with a not_after.
func (k TokenKey) Record() *weirv1.SigningKey {
	return &weirv1.SigningKey{KeyId: k.ID, Algorithm: tokenAlgorithm, PublicKey: k.private.Public().(ed25519.PublicKey)}
}

// LookupSigningKey finds a public key of control.keys.v1 by its id.
type LookupSigningKey func(keyID string) (*weirv1.SigningKey, bool)

// Only is a lookup that knows the public half of k alone: for tests, and for a process that signs for itself.
func (k TokenKey) Only() LookupSigningKey {
	return func(keyID string) (*weirv1.SigningKey, bool) { return k.Record(), keyID == k.ID }
}

// publicAt is the usable public key of a record as of a time. A key of another algorithm or length is not one, and
// neither is a record whose id is not the hash of its content: such a record could shadow a real key.
func publicAt(key *weirv1.SigningKey, id string, at time.Time) (ed25519.PublicKey, bool) {
	public := ed25519.PublicKey(key.GetPublicKey())
	if key.GetAlgorithm() != tokenAlgorithm || len(public) != ed25519.PublicKeySize || keyID(public) != id {
		return nil, false
	}
	return public, validAt(key, at)
}

// validAt reports whether a record's time is now.
func validAt(key *weirv1.SigningKey, at time.Time) bool {
	from, to := key.GetNotBefore(), key.GetNotAfter()
	return (from == nil || !at.Before(from.AsTime())) && (to == nil || at.Before(to.AsTime()))
}

func keyID(public ed25519.PublicKey) string {
	sum := sha256.Sum256(public)
	return "ek_" + hex.EncodeToString(sum[:8])
}
