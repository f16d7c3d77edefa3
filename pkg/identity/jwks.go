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
	keys     map[string][]jwk // by key id; those without one by ""
	loadedAt time.Time        // of the last success; zero = never
	triedAt  time.Time
	failed   bool          // the last fetch
	inFlight chan struct{} // closed when the fetch under way ends; nil = none
	// missing are signer.name of keys that the last fetch was waited for, and that did not come.
	missing map[string]bool
}

type jwk struct {
	public any
	alg    string // "" where the set does not say
}

// signer is what a token says of the key that has signed it.
type signer struct {
	kid string // "" where it does not say
	// signed reports whether a key has made the token's signature; asked only where the token names none.
	signed func(jwk) bool
	name   string // what the key is remembered by as missing
}

const (
	jwksMaxAge   = 5 * time.Minute
	jwksMaxStale = 24 * time.Hour
	jwksCoolDown = 10 * time.Second
	jwksTimeout  = 5 * time.Second
	maxJWKSBytes = 1 << 20
	maxJWKSKeys  = 1000 // of a set, and of those missing
	maxSameID    = 8    // keys with one id, or without one: each is tried on a token
)

var errUnknownKey = errors.New("unknown key")

// NewJWKS makes a cache; nothing is fetched before the first Refresh or token. client may be nil.
func NewJWKS(url string, client *http.Client) *JWKS {
	if client == nil {
		client = &http.Client{Timeout: jwksTimeout}
	}
	return &JWKS{url: url, client: client}
}

// find returns the keys that a token may have been signed with, at least one: those with its key id, which may be several
// (RFC 7517, section 4.5). A token without an id gets the one that has signed it, of the keys without an id, or of those of a
// set with only one id. ErrUnavailable: the set was never loaded, is too old, or does not know the key and cannot be asked now.
func (j *JWKS) find(ctx context.Context, s signer, now time.Time) ([]jwk, error) {
	set, _ := j.loaded(now)
	keys := s.of(set)
	wait := j.fetchDue(len(keys) == 0, now)
	if len(keys) > 0 {
		return keys, nil
	}
	if wait != nil {
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
		}
	}
	set, at := j.loaded(now)
	if keys := s.of(set); len(keys) > 0 {
		return keys, nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.failed || at.IsZero():
		return nil, fmt.Errorf("%w: key set %s", ErrUnavailable, j.url)
	case j.missing[s.name]:
		return nil, errUnknownKey
	case wait != nil && at.Equal(j.loadedAt):
		if len(j.missing) < maxJWKSKeys {
			j.missing[s.name] = true
		}
		return nil, errUnknownKey
	default:
		return nil, fmt.Errorf("%w: key set %s had no such key a moment ago", ErrUnavailable, j.url)
	}
}

// of are the keys of a set that a token may have been signed with.
func (s signer) of(set map[string][]jwk) []jwk {
	if s.kid != "" {
		return set[s.kid]
	}
	keys := set[""]
	if len(set) == 1 {
		for _, only := range set {
			keys = only
		}
	}
	for i, k := range keys {
		if s.signed(k) {
			return keys[i : i+1]
		}
	}
	return nil
}

// loaded is the set as it was fetched last, if it is not too old, and when that was. Nobody changes it.
func (j *JWKS) loaded(now time.Time) (map[string][]jwk, time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if now.Sub(j.loadedAt) > jwksMaxStale {
		return nil, j.loadedAt
	}
	return j.keys, j.loadedAt
}

// fetchDue starts a fetch where one is due, and returns the one under way.
func (j *JWKS) fetchDue(unknown bool, now time.Time) <-chan struct{} {
	j.mu.Lock()
	defer j.mu.Unlock()
	due := unknown || now.Sub(j.loadedAt) > jwksMaxAge
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
	return j.inFlight
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

func (j *JWKS) fetch(ctx context.Context) (map[string][]jwk, error) {
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
func parseJWKS(body []byte) (map[string][]jwk, error) {
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
	keys := make(map[string][]jwk, len(set.Keys))
	for _, m := range set.Keys {
		if m.USE != "" && m.USE != jwkset.UseSig {
			continue
		}
		parsed, err := jwkset.NewJWKFromMarshal(m, jwkset.JWKMarshalOptions{}, jwkset.JWKValidateOptions{SkipAll: true})
		if err != nil {
			continue
		}
		if k := (jwk{public: parsed.Key(), alg: string(m.ALG)}); usable(k.public) {
			if keys[m.KID] = append(keys[m.KID], k); len(keys[m.KID]) > maxSameID {
				return nil, fmt.Errorf("more than %d keys with the id %.64q", maxSameID, m.KID)
			}
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
