package instance

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// Names of the secret files below D/secrets, each readable by the owner alone.
const (
	SecretHMAC    = "hmac.key"            // shared by admission, breaker and attributor
	SecretToken   = "token_ed25519.pem"   // admission's key for execution tokens
	SecretFinance = "finance.password"    // ClickHouse user finance
	SecretDefault = "clickhouse.password" // ClickHouse user default
)

// ensureSecrets makes what is missing and leaves what is there: a changed key would invalidate open receipts.
func (d Dir) ensureSecrets() error {
	if err := os.MkdirAll(d.file("secrets"), 0o700); err != nil {
		return fmt.Errorf("secrets folder: %w", err)
	}
	makers := map[string]func() ([]byte, error){
		SecretHMAC: randomHex, SecretFinance: randomHex, SecretDefault: randomHex, SecretToken: newTokenKey,
	}
	for name, create := range makers {
		if _, err := os.Stat(d.Secret(name)); err == nil {
			continue
		} else if !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("secret %s: %w", name, err)
		}
		b, err := create()
		if err != nil {
			return fmt.Errorf("make secret %s: %w", name, err)
		}
		if err := replaceFile(d.Secret(name), b); err != nil {
			return fmt.Errorf("secret %s: %w", name, err)
		}
	}
	return nil
}

// ReadSecret is the text of a secret file without the final line break.
func (d Dir) ReadSecret(name string) (string, error) {
	b, err := os.ReadFile(d.Secret(name))
	if err != nil {
		return "", fmt.Errorf("secret %s: %w", name, err)
	}
	return strings.TrimSpace(string(b)), nil
}

func randomHex() ([]byte, error) {
	b := make([]byte, 32)
	if _, err := rand.Read(b); err != nil {
		return nil, err
	}
	return []byte(hex.EncodeToString(b) + "\n"), nil
}

func newTokenKey() ([]byte, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}
