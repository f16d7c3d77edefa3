package identity

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

const (
	jwtLeeway  = 30 * time.Second
	minRSABits = 2048
	maxJWT     = 16 << 10
	maxTenants = 1000
)

// JWTConfig says whose tokens are accepted. All fields but MapTenant are required.
type JWTConfig struct {
	Issuer   string
	Audience string
	// TenantClaim is the name of the claim that holds the tenant, a string or a list of strings.
	TenantClaim string
	// MapTenant turns the claim's value into a tenant id (the tenants file's `identities.jwt`); nil takes it as it is.
	MapTenant func(claim string) (tenant string, ok bool)
}

// JWTVerifier verifies callers' JWTs against a key set.
type JWTVerifier struct {
	cfg  JWTConfig
	keys *JWKS
}

// NewJWTVerifier makes a verifier; a missing field is an error, for none has a safe default.
func NewJWTVerifier(cfg JWTConfig, keys *JWKS) (*JWTVerifier, error) {
	if cfg.Issuer == "" || cfg.Audience == "" || cfg.TenantClaim == "" {
		return nil, errors.New("identity: JWT needs an issuer, an audience and a tenant claim")
	}
	return &JWTVerifier{cfg: cfg, keys: keys}, nil
}

// Verify checks a JWT at the time now. The algorithm in the token is never taken on trust: it must be on the list, fit
// the key's type, and be the one the key set states for the key, if it states one.
func (v *JWTVerifier) Verify(ctx context.Context, token string, now time.Time) (Principal, error) {
	if len(token) > maxJWT {
		return Principal{}, fmt.Errorf("%w: the JWT is too long", ErrUnauthenticated)
	}
	if !plain(token) {
		return Principal{}, fmt.Errorf("%w: JWT: malformed", ErrUnauthenticated)
	}
	claims := jwt.MapClaims{}
	parser := jwt.NewParser(jwt.WithValidMethods([]string{"RS256", "ES256", "EdDSA"}), jwt.WithIssuer(v.cfg.Issuer),
		jwt.WithAudience(v.cfg.Audience), jwt.WithExpirationRequired(), jwt.WithLeeway(jwtLeeway), jwt.WithStrictDecoding(),
		jwt.WithTimeFunc(func() time.Time { return now }))
	_, err := parser.ParseWithClaims(token, claims, func(t *jwt.Token) (any, error) { return v.key(ctx, t, now) })
	switch {
	case errors.Is(err, ErrUnavailable):
		return Principal{}, fmt.Errorf("%w: the JWT key set cannot be had", ErrUnavailable)
	case err != nil:
		return Principal{}, fmt.Errorf("%w: JWT: %s", ErrUnauthenticated, reason(err))
	}
	tenants, err := v.tenants(claims[v.cfg.TenantClaim])
	if err != nil {
		return Principal{}, err
	}
	subject, _ := claims["sub"].(string)
	return Principal{Method: MethodJWT, KeyID: subject, Tenants: tenants}, nil
}

// plain reports whether header and claims are JSON objects without a member twice: which of two counts is each reader's
// own taste, and the issuer's may have been another one.
func plain(token string) bool {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return false
	}
	for _, part := range parts[:2] {
		raw, err := base64.RawURLEncoding.DecodeString(part)
		if err != nil {
			return false
		}
		if _, err := object(raw); err != nil {
			return false
		}
	}
	return true
}

func (v *JWTVerifier) key(ctx context.Context, t *jwt.Token, now time.Time) (any, error) {
	if t.Header["typ"] == tokenType {
		return nil, errors.New("an execution token is not a caller's credential")
	}
	if _, there := t.Header["crit"]; there {
		return nil, errors.New("the token demands an extension that is not understood here") // RFC 7515, 4.1.11
	}
	s := signer{}
	s.kid, _ = t.Header["kid"].(string)
	if s.name = s.kid; s.name == "" {
		sum := sha256.Sum256(t.Signature)
		s.name = string(sum[:])
	}
	text := t.Raw[:strings.LastIndexByte(t.Raw, '.')]
	s.signed = func(k jwk) bool {
		return k.takes(t.Method.Alg()) && t.Method.Verify(text, t.Signature, k.public) == nil
	}
	keys, err := v.keys.find(ctx, s, now)
	if err != nil {
		return nil, err
	}
	var set jwt.VerificationKeySet
	for _, k := range keys {
		if k.takes(t.Method.Alg()) {
			set.Keys = append(set.Keys, k.public)
		}
	}
	return set, nil // one without keys verifies nothing
}

// takes reports whether a key verifies by an algorithm: the only one for its type, and the one that the set names for it.
func (k jwk) takes(alg string) bool { return (k.alg == "" || k.alg == alg) && fits(k.public, alg) }

// fits ties each algorithm to one type of public key, which is what rules out key confusion.
func fits(public any, alg string) bool {
	switch k := public.(type) {
	case *rsa.PublicKey:
		return alg == "RS256" && k.N.BitLen() >= minRSABits
	case *ecdsa.PublicKey:
		return alg == "ES256" && k.Curve.Params().BitSize == 256
	case ed25519.PublicKey:
		return alg == "EdDSA"
	default:
		return false
	}
}

// tenants reads the tenant claim. One value that maps to no tenant spoils the whole claim: dropping it silently
// could leave one tenant of several, for which the request would then be.
func (v *JWTVerifier) tenants(claim any) ([]string, error) {
	var names []string
	switch c := claim.(type) {
	case string:
		names = []string{c}
	case []any:
		for _, e := range c {
			s, _ := e.(string)
			names = append(names, s)
		}
	}
	if len(names) == 0 || len(names) > maxTenants {
		return nil, fmt.Errorf("%w: JWT: no tenant in claim %q", ErrUnauthenticated, v.cfg.TenantClaim)
	}
	for i, name := range names {
		ok := name != ""
		if ok && v.cfg.MapTenant != nil {
			names[i], ok = v.cfg.MapTenant(name)
		}
		if !ok {
			return nil, fmt.Errorf("%w: JWT: no such tenant in claim %q", ErrUnauthenticated, v.cfg.TenantClaim)
		}
	}
	return names, nil
}
