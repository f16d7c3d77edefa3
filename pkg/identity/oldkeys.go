package identity

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/weir-project/weir/pkg/gen/weirv1"
)

// maxOldKeys bounds how many keys may be on their way out at once.
const maxOldKeys = 16

// ParseOldTokenKeys reads the keys that current replaces: PEM blocks of Ed25519 keys, PRIVATE KEY (PKCS8) or PUBLIC KEY
// (PKIX), since an old key need not be kept to be honoured. Empty text is none. The answers are their records on
// control.keys.v1, without an end.
func ParseOldTokenKeys(text []byte, current TokenKey) ([]*weirv1.SigningKey, error) {
	var out []*weirv1.SigningKey
	rest := bytes.TrimSpace(text)
	for len(rest) > 0 {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return nil, errors.New("identity: old token keys: not PEM")
		}
		rest = bytes.TrimSpace(rest)
		public, err := oldPublic(block)
		if err != nil {
			return nil, err
		}
		id := keyID(public)
		if id == current.ID {
			return nil, fmt.Errorf("identity: %s is both the signing key and an old one", id)
		}
		if out = append(out, &weirv1.SigningKey{KeyId: id, Algorithm: tokenAlgorithm, PublicKey: public}); len(out) > maxOldKeys {
			return nil, fmt.Errorf("identity: more than %d old token keys", maxOldKeys)
		}
	}
	return out, nil
}

func oldPublic(block *pem.Block) (ed25519.PublicKey, error) {
	var parsed any
	var err error
	switch block.Type {
	case "PRIVATE KEY":
		if parsed, err = x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
			if private, ok := parsed.(ed25519.PrivateKey); ok {
				parsed = private.Public()
			}
		}
	case "PUBLIC KEY":
		parsed, err = x509.ParsePKIXPublicKey(block.Bytes)
	default:
		return nil, fmt.Errorf("identity: old token keys: PEM block %q", block.Type)
	}
	if err != nil {
		return nil, fmt.Errorf("identity: old token key: %w", err)
	}
	public, ok := parsed.(ed25519.PublicKey)
	if !ok {
		return nil, fmt.Errorf("identity: old token key is a %T, need Ed25519", parsed)
	}
	return public, nil
}
