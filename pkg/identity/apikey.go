package identity

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/weir-project/weir/pkg/gen/weirv1"
)

// An API key is wk_<keyid>_<secret>. Both parts are lower-case base32 without padding, so neither contains "_" and the
// whole survives a double click, a shell and a URL.
const (
	apiKeyPrefix = "wk_"
	keyIDBytes   = 10 // 16 characters
	secretBytes  = 32 // 52 characters; 256 random bits need no slow hash
	maxAPIKey    = 256
)

// APIKey is a new key. Only Hash may be stored.
type APIKey struct {
	// ID is public: it names the key in logs, in the catalog and to `weir keys revoke`.
	ID string
	// Text is the whole key, shown once.
	Text string
	// Hash is the SHA-256 of the secret part, as catalog.apikeys.v1 has it.
	Hash []byte
}

// NewAPIKey makes a key from random (crypto/rand.Reader outside tests).
func NewAPIKey(random io.Reader) (APIKey, error) {
	raw := make([]byte, keyIDBytes+secretBytes)
	if _, err := io.ReadFull(random, raw); err != nil {
		return APIKey{}, fmt.Errorf("identity: read randomness for an API key: %w", err)
	}
	id, secret := base32Text(raw[:keyIDBytes]), base32Text(raw[keyIDBytes:])
	hash := hashSecret(secret)
	return APIKey{ID: id, Text: apiKeyPrefix + id + "_" + secret, Hash: hash[:]}, nil
}

func base32Text(b []byte) string {
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b))
}

func hashSecret(secret string) [sha256.Size]byte {
	var usual [maxAPIKey]byte // a copy that no heap has
	return sha256.Sum256(append(usual[:0], secret...))
}

// SplitAPIKey cuts a key into id and secret without judging either. Anything else is ErrUnauthenticated.
func SplitAPIKey(text string) (id, secret string, err error) {
	rest, ok := strings.CutPrefix(text, apiKeyPrefix)
	if !ok || len(text) > maxAPIKey {
		return "", "", fmt.Errorf("%w: not an API key", ErrUnauthenticated)
	}
	id, secret, ok = strings.Cut(rest, "_")
	if !ok || !isBase32(id) || !isBase32(secret) {
		return "", "", fmt.Errorf("%w: not an API key", ErrUnauthenticated)
	}
	return id, secret, nil
}

func isBase32(s string) bool {
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < '2' || c > '7') {
			return false
		}
	}
	return s != ""
}

// LookupAPIKey finds a key by its id in the catalog.
type LookupAPIKey func(keyID string) (*weirv1.ApiKey, bool)

// VerifyAPIKey checks a key against the catalog at the time now. An unknown id costs the same comparison as a known
// one, and both failures read the same: whether an id exists is nobody's business.
func VerifyAPIKey(text string, lookup LookupAPIKey, now time.Time) (Principal, error) {
	id, secret, err := SplitAPIKey(text)
	if err != nil {
		return Principal{}, err
	}
	stored, ok := lookup(id)
	var want [sha256.Size]byte // of an unknown key: no secret hashes to zeros
	if ok && len(stored.GetSecretHash()) == sha256.Size {
		want = [sha256.Size]byte(stored.GetSecretHash())
	}
	hash := hashSecret(secret)
	match := subtle.ConstantTimeCompare(hash[:], want[:]) == 1
	if !ok || !match || len(stored.GetTenantIds()) == 0 {
		return Principal{}, fmt.Errorf("%w: unknown API key", ErrUnauthenticated)
	}
	if revoked := stored.GetRevokedAt(); revoked != nil && !now.Before(revoked.AsTime()) {
		return Principal{}, fmt.Errorf("%w: API key %s was revoked", ErrUnauthenticated, id)
	}
	return Principal{Method: MethodAPIKey, KeyID: id, Tenants: stored.GetTenantIds()}, nil
}
