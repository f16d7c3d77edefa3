package instance

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/weir-project/weir/pkg/identity"
)

// Names of the secret files below D/secrets, each readable by the owner alone.
const (
	secretHMAC    = "hmac.key"            // shared by admission, breaker and attributor
	secretToken   = "token_ed25519.pem"   // admission's key for execution tokens
	secretFinance = "finance.password"    // ClickHouse user finance
	secretDefault = "clickhouse.password" // ClickHouse user default
)

// ensureSecrets makes what is missing and leaves what is there: a changed key would invalidate open receipts.
func (d Dir) ensureSecrets() error {
	if err := os.MkdirAll(d.file("secrets"), 0o700); err != nil {
		return fmt.Errorf("secrets folder: %w", err)
	}
	makers := map[string]func() ([]byte, error){
		secretHMAC: randomText, secretFinance: randomText, secretDefault: randomText, secretToken: newTokenKey,
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

// randomText is longer than the 32 bytes that an HMAC key must have.
func randomText() ([]byte, error) { return []byte(rand.Text() + rand.Text() + "\n"), nil }

func newTokenKey() ([]byte, error) {
	key, err := identity.NewTokenKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	return key.PEM()
}
