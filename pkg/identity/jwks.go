package identity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/MicahParks/jwkset"
)

// JWKS caches a key set (RFC 7517) that is fetched over HTTP. It is fetched again when it is older than jwksMaxAge, in
// the background, and when a token names an unknown key, which is how a rotation shows; never more often than
// jwksCoolDown and one fetch at a time. Until it can be fetched again nobody knows whether such a key is a new one: that
// is ErrUnavailable, unless the last fetch was made for that very key. While the issuer is away the keys known go on being
// used for jwksMaxStale. Safe for concurrent use.
type JWKS struct {
	url    string
	client *http.Client

	mu       sync.Mutex
	keys     map[string]jwk
	loadedAt time.Time // of the last success; zero = never
	triedAt  time.Time
	failed   bool          // the last fetch
	inFlight chan struct{} // closed when the fetch under way ends; nil = none
	// missing are keys that the last fetch was waited for, and that did not come.
	missing map[string]bool
}

type jwk struct {
	public any
	alg    string // "" where the set does not say
}

const (
	jwksMaxAge   = 5 * time.Minute
	jwksMaxStale = 24 * time.Hour
	jwksCoolDown = 10 * time.Second
	jwksTimeout  = 5 * time.Second
	maxJWKSBytes = 1 << 20
	maxJWKSKeys  = 1000 // of a set, and of those missing
)

var errUnknownKey = errors.New("unknown key")

// NewJWKS makes a cache; nothing is fetched before the first Refresh or token. client may be nil.
func NewJWKS(url string, client *http.Client) *JWKS {
	if client == nil {
		client = &http.Client{Timeout: jwksTimeout}
	}
	return &JWKS{url: url, client: client}
}

// key returns the key with that id. A token without a key id gets the key only of a set that has exactly one.
// ErrUnavailable: the set was never loaded, is too old, or does not know the key and cannot be asked now.
func (j *JWKS) key(ctx context.Context, kid string, now time.Time) (jwk, error) {
	key, known, wait := j.look(kid, now)
	if known {
		return key, nil
	}
	if wait != nil {
		select {
		case <-wait:
		case <-ctx.Done():
			return jwk{}, fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	key, known = j.find(kid, now)
	switch {
	case known:
		return key, nil
	case j.failed || j.loadedAt.IsZero():
		return jwk{}, fmt.Errorf("%w: key set %s", ErrUnavailable, j.url)
	case kid == "", j.missing[kid]:
		return jwk{}, errUnknownKey
	case wait != nil:
		if len(j.missing) < maxJWKSKeys {
			j.missing[kid] = true
		}
		return jwk{}, errUnknownKey
	default:
		return jwk{}, fmt.Errorf("%w: key set %s had no such key a moment ago", ErrUnavailable, j.url)
	}
}

// look finds the key in the cache, starting a fetch where one is due; wait is the fetch under way.
func (j *JWKS) look(kid string, now time.Time) (key jwk, known bool, wait <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	key, known = j.find(kid, now)
	due := !known || now.Sub(j.loadedAt) > jwksMaxAge
	if due && j.inFlight == nil && now.Sub(j.triedAt) >= jwksCoolDown {
		done := make(chan struct{})
		j.inFlight, j.triedAt = done, now
		go func() {
			defer close(done)
			ctx, cancel := context.WithTimeout(context.Background(), jwksTimeout)
			defer cancel()
			_ = j.Refresh(ctx, now) // the outcome is in the cache
		}()
	}
	return key, known, j.inFlight
}

// Refresh fetches the set now. Its errors wrap ErrUnavailable; the keys known stay.
func (j *JWKS) Refresh(ctx context.Context, now time.Time) error {
	keys, err := j.fetch(ctx)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.inFlight, j.failed = nil, err != nil
	if err != nil {
		return fmt.Errorf("%w: key set %s: %w", ErrUnavailable, j.url, err)
	}
	j.keys, j.loadedAt, j.missing = keys, now, map[string]bool{}
	return nil
}

func (j *JWKS) find(kid string, now time.Time) (jwk, bool) {
	if now.Sub(j.loadedAt) > jwksMaxStale {
		return jwk{}, false
	}
	if kid == "" && len(j.keys) == 1 {
		for _, only := range j.keys {
			return only, true
		}
	}
	key, ok := j.keys[kid]
	return key, ok && kid != ""
}

func (j *JWKS) fetch(ctx context.Context) (map[string]jwk, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, j.url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := j.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("HTTP status %d", resp.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxJWKSBytes+1))
	if err != nil {
		return nil, err
	}
	return parseJWKS(body)
}

// parseJWKS reads a set. Keys that are of no use here (symmetric, encryption, unknown types) are skipped: an issuer may
// publish them. A set without a usable key is an error, so that a broken page does not lock everybody out.
func parseJWKS(body []byte) (map[string]jwk, error) {
	if len(body) > maxJWKSBytes {
		return nil, fmt.Errorf("more than %d bytes", maxJWKSBytes)
	}
	var set struct {
		Keys []jwkset.JWKMarshal `json:"keys"`
	}
	if err := json.Unmarshal(body, &set); err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	if len(set.Keys) > maxJWKSKeys {
		return nil, fmt.Errorf("more than %d keys", maxJWKSKeys)
	}
	keys := make(map[string]jwk, len(set.Keys))
	for _, m := range set.Keys {
		if m.USE != "" && m.USE != jwkset.UseSig {
			continue
		}
		parsed, err := jwkset.NewJWKFromMarshal(m, jwkset.JWKMarshalOptions{}, jwkset.JWKValidateOptions{SkipAll: true})
		if err != nil {
			continue
		}
		if k := (jwk{public: parsed.Key(), alg: string(m.ALG)}); usable(k.public) {
			keys[m.KID] = k
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("no usable signing key")
	}
	return keys, nil
}

func usable(public any) bool {
	return fits(public, "RS256") || fits(public, "ES256") || fits(public, "EdDSA")
}
