package identity

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/golang-jwt/jwt/v5"
)

var epoch = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// issuer is an identity provider under test: three keys and a server that can be switched off.
type issuer struct {
	rsa     *rsa.PrivateKey
	ec      *ecdsa.PrivateKey
	ed      ed25519.PrivateKey
	extra   []jwkset.JWKMarshal
	only    []jwkset.JWKMarshal // instead of all of them
	down    atomic.Bool
	fetches atomic.Int32
	srv     *httptest.Server
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	is := &issuer{}
	var err error
	if is.rsa, err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
		t.Fatal(err)
	}
	if is.ec, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	if _, is.ed, err = ed25519.GenerateKey(rand.Reader); err != nil {
		t.Fatal(err)
	}
	is.srv = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		is.fetches.Add(1)
		if is.down.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		keys := []jwkset.JWKMarshal{public(t, "rsa", &is.rsa.PublicKey), public(t, "ec", &is.ec.PublicKey),
			public(t, "ed", is.ed.Public())}
		keys = slices.Concat(keys, is.extra)
		if is.only != nil {
			keys = is.only
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"keys": keys})
	}))
	t.Cleanup(is.srv.Close)
	return is
}

func public(t *testing.T, kid string, key crypto.PublicKey) jwkset.JWKMarshal {
	t.Helper()
	k, err := jwkset.NewJWKFromKey(key, jwkset.JWKOptions{Metadata: jwkset.JWKMetadataOptions{KID: kid, USE: jwkset.UseSig}})
	if err != nil {
		t.Fatal(err)
	}
	return k.Marshal()
}

func (is *issuer) verifier(t *testing.T, mapTenant func(string) (string, bool)) *JWTVerifier {
	t.Helper()
	v, err := NewJWTVerifier(JWTConfig{Issuer: "https://idp.example", Audience: "weir", TenantClaim: "tenant", MapTenant: mapTenant},
		NewJWKS(is.srv.URL, is.srv.Client()))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func goodClaims() jwt.MapClaims {
	return jwt.MapClaims{"iss": "https://idp.example", "aud": "weir", "sub": "svc", "tenant": "acme", "exp": epoch.Add(time.Hour).Unix()}
}

func with(key string, value any) jwt.MapClaims {
	c := goodClaims()
	if value == nil {
		delete(c, key)
	} else {
		c[key] = value
	}
	return c
}

func signJWT(t *testing.T, m jwt.SigningMethod, key any, kid string, claims jwt.Claims, header ...string) string {
	t.Helper()
	tok := jwt.NewWithClaims(m, claims)
	tok.Header["kid"] = kid
	for i := 0; i+1 < len(header); i += 2 {
		tok.Header[header[i]] = header[i+1]
	}
	s, err := tok.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Goal: every known attack on a JWT verifier is a 401. Method: one row an attack, each differing in one thing from a
// token that is accepted.
func TestJWTAttacks(t *testing.T) {
	is := newIssuer(t)
	rsaPEM := publicPEM(t, &is.rsa.PublicKey)
	otherRSA, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	oct, err := jwkset.NewJWKFromKey([]byte("0123456789abcdef0123456789abcdef"), jwkset.JWKOptions{
		Marshal: jwkset.JWKMarshalOptions{Private: true}, Metadata: jwkset.JWKMetadataOptions{KID: "oct"}})
	if err != nil {
		t.Fatal(err)
	}
	enc := public(t, "enc", &otherRSA.PublicKey)
	enc.USE = jwkset.UseEnc
	pinned := public(t, "pinned", &is.rsa.PublicKey)
	pinned.ALG = jwkset.AlgRS512
	is.extra = []jwkset.JWKMarshal{oct.Marshal(), enc, pinned}
	good := signJWT(t, jwt.SigningMethodRS256, is.rsa, "rsa", goodClaims())

	rows := map[string]string{
		"empty":                     "",
		"not a token":               "a.b.c",
		"two parts":                 strings.Join(strings.Split(good, ".")[:2], "."),
		"alg none":                  signJWT(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, "rsa", goodClaims()),
		"alg None, capital":         reheader(good, `{"alg":"None","kid":"rsa"}`, ""),
		"alg missing":               reheader(good, `{"kid":"rsa"}`, strings.Split(good, ".")[2]),
		"HS256 by the public PEM":   signJWT(t, jwt.SigningMethodHS256, rsaPEM, "rsa", goodClaims()),
		"HS256 by a symmetric key":  signJWT(t, jwt.SigningMethodHS256, []byte("0123456789abcdef0123456789abcdef"), "oct", goodClaims()),
		"RS512, not on the list":    signJWT(t, jwt.SigningMethodRS512, is.rsa, "rsa", goodClaims()),
		"PS256, not on the list":    signJWT(t, jwt.SigningMethodPS256, is.rsa, "rsa", goodClaims()),
		"RS256, kid of the EC key":  signJWT(t, jwt.SigningMethodRS256, is.rsa, "ec", goodClaims()),
		"ES256, kid of the RSA key": signJWT(t, jwt.SigningMethodES256, is.ec, "rsa", goodClaims()),
		"EdDSA, kid of the EC key":  signJWT(t, jwt.SigningMethodEdDSA, is.ed, "ec", goodClaims()),
		"set names another alg":     signJWT(t, jwt.SigningMethodRS256, is.rsa, "pinned", goodClaims()),
		"encryption key":            signJWT(t, jwt.SigningMethodRS256, otherRSA, "enc", goodClaims()),
		"unknown kid":               signJWT(t, jwt.SigningMethodRS256, is.rsa, "nope", goodClaims()),
		"no kid among several":      signJWT(t, jwt.SigningMethodRS256, is.rsa, "", goodClaims()),
		"foreign key, known kid":    signJWT(t, jwt.SigningMethodRS256, otherRSA, "rsa", goodClaims()),
		"own key in the header":     signJWT(t, jwt.SigningMethodRS256, otherRSA, "x", goodClaims(), "jku", "https://evil.example/keys"),
		"expired":                   signJWT(t, jwt.SigningMethodRS256, is.rsa, "rsa", with("exp", epoch.Add(-time.Minute).Unix())),
		"no expiry":                 signJWT(t, jwt.SigningMethodRS256, is.rsa, "rsa", with("exp", nil)),
		"not yet valid":             signJWT(t, jwt.SigningMethodRS256, is.rsa, "rsa", with("nbf", epoch.Add(time.Hour).Unix())),
		"wrong audience":            signJWT(t, jwt.SigningMethodRS256, is.rsa, "rsa", with("aud", "other")),
		"no audience":               signJWT(t, jwt.SigningMethodRS256, is.rsa, "rsa", with("aud", nil)),
		"wrong issuer":              signJWT(t, jwt.SigningMethodRS256, is.rsa, "rsa", with("iss", "https://evil.example")),
		"no issuer":                 signJWT(t, jwt.SigningMethodRS256, is.rsa, "rsa", with("iss", nil)),
		"no tenant claim":           signJWT(t, jwt.SigningMethodRS256, is.rsa, "rsa", with("tenant", nil)),
		"empty tenant":              signJWT(t, jwt.SigningMethodRS256, is.rsa, "rsa", with("tenant", "")),
		"tenant is a number":        signJWT(t, jwt.SigningMethodRS256, is.rsa, "rsa", with("tenant", 7)),
		"tenant list, one empty":    signJWT(t, jwt.SigningMethodRS256, is.rsa, "rsa", with("tenant", []string{"acme", ""})),
		"tenant list empty":         signJWT(t, jwt.SigningMethodRS256, is.rsa, "rsa", with("tenant", []string{})),
		"typ of an execution token": signJWT(t, jwt.SigningMethodEdDSA, is.ed, "ed", goodClaims(), "typ", tokenType),
		"own key, jwk":              signJWT(t, jwt.SigningMethodRS256, otherRSA, "rsa", goodClaims(), "jwk", `{"kty":"RSA","e":"AQAB","n":"AQAB"}`),
		"own key, x5u":              signJWT(t, jwt.SigningMethodRS256, otherRSA, "rsa", goodClaims(), "x5u", "https://evil.example/cert"),
		"own key, jku, known kid":   signJWT(t, jwt.SigningMethodRS256, otherRSA, "rsa", goodClaims(), "jku", "https://evil.example/keys"),
		"kid is a path":             signJWT(t, jwt.SigningMethodRS256, otherRSA, "../../dev/null", goodClaims()),
		"crit":                      signJWT(t, jwt.SigningMethodRS256, is.rsa, "rsa", goodClaims(), "crit", "b64"),
		"tenant twice":              signRaw(t, is.ed, `{"alg":"EdDSA","kid":"ed"}`, `{"iss":"https://idp.example","aud":"weir","tenant":"acme","tenant":"evil","exp":1800000000}`),
		"expiry twice":              signRaw(t, is.ed, `{"alg":"EdDSA","kid":"ed"}`, `{"iss":"https://idp.example","aud":"weir","tenant":"acme","exp":1,"exp":1800000000}`),
		"alg twice":                 signRaw(t, is.ed, `{"alg":"none","alg":"EdDSA","kid":"ed"}`, `{"iss":"https://idp.example","aud":"weir","tenant":"acme","exp":1800000000}`),
		"claims are a list":         signRaw(t, is.ed, `{"alg":"EdDSA","kid":"ed"}`, `[]`),
		"two objects":               signRaw(t, is.ed, `{"alg":"EdDSA","kid":"ed"}`, `{"iss":"https://idp.example","aud":"weir","tenant":"acme","exp":1800000000}{}`),
		"expiry is text":            signJWT(t, jwt.SigningMethodRS256, is.rsa, "rsa", with("exp", "never")),
		"audiences without ours":    signJWT(t, jwt.SigningMethodRS256, is.rsa, "rsa", with("aud", []string{"a", "b"})),
		"issuer with a slash more":  signJWT(t, jwt.SigningMethodRS256, is.rsa, "rsa", with("iss", "https://idp.example/")),
		"four parts":                good + ".x",
		"padded signature":          good + "=",
		"altered payload":           repayload(good, `"acme"`, `"evil"`),
		"longer than the bound":     good + strings.Repeat("A", maxJWT),
	}
	v := is.verifier(t, nil)
	base := signRaw(t, is.ed, `{"alg":"EdDSA","kid":"ed"}`, `{"iss":"https://idp.example","aud":"weir","tenant":"acme","exp":1800000000}`)
	if _, err := v.Verify(context.Background(), base, epoch); err != nil {
		t.Fatalf("the base of the raw rows: %v", err)
	}
	for name, token := range rows {
		p, err := is.verifier(t, nil).Verify(context.Background(), token, epoch) // one that can ask the issuer
		if !errors.Is(err, ErrUnauthenticated) || p.Tenants != nil {
			t.Errorf("%s: %+v, %v; want ErrUnauthenticated", name, p, err)
		}
		if p, err := v.Verify(context.Background(), token, epoch); err == nil || p.Tenants != nil { // one that has just asked
			t.Errorf("%s: %+v, %v; want an error", name, p, err)
		}
	}
}

// signRaw signs a header and claims as they are written.
func signRaw(t *testing.T, key ed25519.PrivateKey, header, claims string) string {
	t.Helper()
	unsigned := base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + base64.RawURLEncoding.EncodeToString([]byte(claims))
	return unsigned + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(key, []byte(unsigned)))
}

func publicPEM(t *testing.T, key any) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

func reheader(token, header, signature string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + strings.Split(token, ".")[1] + "." + signature
}

func repayload(token, old, repl string) string {
	parts := strings.Split(token, ".")
	raw, _ := base64.RawURLEncoding.DecodeString(parts[1])
	parts[1] = base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(string(raw), old, repl, 1)))
	return strings.Join(parts, ".")
}

func TestJWTAccepted(t *testing.T) {
	is := newIssuer(t)
	v := is.verifier(t, nil)
	for _, c := range []struct {
		token string
		want  string
	}{
		{signJWT(t, jwt.SigningMethodRS256, is.rsa, "rsa", goodClaims()), "[acme]"},
		{signJWT(t, jwt.SigningMethodES256, is.ec, "ec", goodClaims()), "[acme]"},
		{signJWT(t, jwt.SigningMethodEdDSA, is.ed, "ed", goodClaims()), "[acme]"},
		{signJWT(t, jwt.SigningMethodEdDSA, is.ed, "ed", with("tenant", []string{"b", "a"})), "[b a]"},
		{signJWT(t, jwt.SigningMethodEdDSA, is.ed, "ed", with("aud", []string{"x", "weir"})), "[acme]"},
	} {
		p, err := v.Verify(context.Background(), c.token, epoch)
		if err != nil || fmt.Sprint(p.Tenants) != c.want || p.Method != MethodJWT || p.KeyID != "svc" {
			t.Errorf("%+v, %v; want tenants %s", p, err, c.want)
		}
	}
	mapped := is.verifier(t, func(s string) (string, bool) { return "t-" + s, s == "acme" })
	p, err := mapped.Verify(context.Background(), signJWT(t, jwt.SigningMethodES256, is.ec, "ec", goodClaims()), epoch)
	if err != nil || p.Tenants[0] != "t-acme" {
		t.Errorf("mapped: %+v, %v", p, err)
	}
	_, err = mapped.Verify(context.Background(), signJWT(t, jwt.SigningMethodES256, is.ec, "ec", with("tenant", "zeta")), epoch)
	if !errors.Is(err, ErrUnauthenticated) {
		t.Errorf("a claim that maps to no tenant: %v", err)
	}
}

// Goal: an issuer that is away is never a 401, and a rotation is found without one.
func TestJWKSOutageAndRotation(t *testing.T) {
	is := newIssuer(t)
	v := is.verifier(t, nil)
	ctx, good := context.Background(), signJWT(t, jwt.SigningMethodES256, is.ec, "ec", with("exp", epoch.Add(72*time.Hour).Unix()))
	is.down.Store(true)
	if _, err := v.Verify(ctx, good, epoch); !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrUnauthenticated) {
		t.Fatalf("never loaded: %v", err)
	}
	is.down.Store(false)
	if _, err := v.Verify(ctx, good, epoch.Add(jwksCoolDown)); err != nil {
		t.Fatalf("after the outage: %v", err)
	}
	is.down.Store(true)
	if _, err := v.Verify(ctx, good, epoch.Add(time.Hour)); err != nil {
		t.Fatalf("a known key while the issuer is away: %v", err)
	}
	rotated, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	is.extra = append(is.extra, public(t, "ec2", &rotated.PublicKey))
	fresh := signJWT(t, jwt.SigningMethodES256, rotated, "ec2", with("exp", epoch.Add(72*time.Hour).Unix()))
	if _, err := v.Verify(ctx, fresh, epoch.Add(2*time.Hour)); !errors.Is(err, ErrUnavailable) {
		t.Fatalf("an unknown key while the issuer is away: %v", err)
	}
	is.down.Store(false)
	if _, err := v.Verify(ctx, fresh, epoch.Add(3*time.Hour)); err != nil {
		t.Fatalf("rotation: %v", err)
	}
	newest := signJWT(t, jwt.SigningMethodES256, rotated, "ec3", with("exp", epoch.Add(72*time.Hour).Unix()))
	is.extra = append(is.extra, public(t, "ec3", &rotated.PublicKey))
	for range 2 { // published since the set was fetched
		if _, err := v.Verify(ctx, newest, epoch.Add(3*time.Hour+jwksCoolDown-1)); !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrUnauthenticated) {
			t.Fatalf("a key that may be new, within the cool-down: %v", err)
		}
	}
	if _, err := v.Verify(ctx, newest, epoch.Add(3*time.Hour+jwksCoolDown)); err != nil {
		t.Fatalf("after the cool-down: %v", err)
	}
	nobodys := signJWT(t, jwt.SigningMethodES256, rotated, "nobody's", with("exp", epoch.Add(72*time.Hour).Unix()))
	for _, after := range []time.Duration{2 * jwksCoolDown, 2*jwksCoolDown + 1} { // fetched for it, and not fetched again
		if _, err := v.Verify(ctx, nobodys, epoch.Add(3*time.Hour+after)); !errors.Is(err, ErrUnauthenticated) {
			t.Fatalf("a key that nobody has: %v", err)
		}
	}
	before := is.fetches.Load()
	for range 100 { // random key ids must not become requests to the issuer
		_, _ = v.Verify(ctx, signJWT(t, jwt.SigningMethodES256, rotated, "nope", goodClaims()), epoch.Add(3*time.Hour))
	}
	if n := is.fetches.Load() - before; n > 1 {
		t.Errorf("%d fetches for 100 unknown keys within the cool-down", n)
	}
	is.down.Store(true)
	if _, err := v.Verify(ctx, good, epoch.Add(3*time.Hour+2*jwksMaxStale)); !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrUnauthenticated) {
		t.Errorf("keys too old: %v", err)
	}
}

// Goal: a key that the issuer has taken away is honoured until the set is read again, then unsure for the cool-down, then
// no key. Method: one at each of those moments.
func TestJWKSRemovedKey(t *testing.T) {
	is := newIssuer(t)
	v := is.verifier(t, nil)
	ctx := context.Background()
	is.extra = []jwkset.JWKMarshal{public(t, "old", &is.ec.PublicKey)}
	token := signJWT(t, jwt.SigningMethodES256, is.ec, "old", goodClaims())
	if _, err := v.Verify(ctx, token, epoch); err != nil {
		t.Fatal(err)
	}
	is.extra = nil
	read := epoch.Add(jwksMaxAge + 1)
	for _, at := range []time.Time{epoch.Add(jwksMaxAge), read} { // the second one has the set read, and does not wait for it
		if _, err := v.Verify(ctx, token, at); err != nil {
			t.Fatalf("%v later: %v", at.Sub(epoch), err)
		}
	}
	if wait := v.keys.fetchDue(false, read); wait != nil {
		<-wait
	}
	if _, err := v.Verify(ctx, token, read.Add(jwksCoolDown-1)); !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrUnauthenticated) {
		t.Errorf("within the cool-down: %v", err)
	}
	for range 2 {
		if _, err := v.Verify(ctx, token, read.Add(jwksCoolDown)); !errors.Is(err, ErrUnauthenticated) {
			t.Errorf("after the cool-down: %v", err)
		}
	}
}

// Goal: of keys that have no id, or the same one, each is tried, and a rotation among those without one is found by the first
// token that none of them has signed. Method: each token at the time at which the issuer must, or must not, be asked for it.
func TestJWKSKeysOfOneID(t *testing.T) {
	is := newIssuer(t)
	ctx := context.Background()
	key := func() *ecdsa.PrivateKey {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	a, b, c := key(), key(), key()
	token := func(k *ecdsa.PrivateKey) string { return signJWT(t, jwt.SigningMethodES256, k, "", goodClaims()) }
	set := func(keys ...crypto.PublicKey) (out []jwkset.JWKMarshal) {
		for _, k := range keys {
			out = append(out, public(t, "", k))
		}
		return out
	}
	is.only = set(&a.PublicKey, &is.rsa.PublicKey, &b.PublicKey)
	v := is.verifier(t, nil)
	check := func(name, token string, after time.Duration, want error, fetches int32) {
		t.Helper()
		_, err := v.Verify(ctx, token, epoch.Add(after))
		if !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
		if n := is.fetches.Load(); n != fetches {
			t.Errorf("%s: %d fetches, want %d", name, n, fetches)
		}
	}
	check("the first", token(a), 0, nil, 1)
	check("the last", token(b), 0, nil, 1)
	check("of another type", signJWT(t, jwt.SigningMethodRS256, is.rsa, "", goodClaims()), 0, nil, 1)
	check("a key id that none has", signJWT(t, jwt.SigningMethodES256, a, "a", goodClaims()), 1, ErrUnavailable, 1)
	is.only = set(&b.PublicKey, &c.PublicKey)
	check("published within the cool-down", token(c), jwksCoolDown-1, ErrUnavailable, 1)
	check("published since", token(c), jwksCoolDown, nil, 2)
	check("in both sets", token(b), jwksCoolDown, nil, 2)
	old := token(a)
	check("taken away, within the cool-down", old, 2*jwksCoolDown-1, ErrUnavailable, 2)
	check("taken away", old, 2*jwksCoolDown, ErrUnauthenticated, 3)
	check("asked for already", old, 2*jwksCoolDown+1, ErrUnauthenticated, 3)
	check("another token of it", token(a), 2*jwksCoolDown+1, ErrUnavailable, 3)

	is.only = []jwkset.JWKMarshal{public(t, "k", &a.PublicKey), public(t, "k", &is.rsa.PublicKey), public(t, "k", &b.PublicKey)}
	v = is.verifier(t, nil)
	for _, signed := range []string{signJWT(t, jwt.SigningMethodES256, a, "k", goodClaims()), signJWT(t, jwt.SigningMethodES256, b, "k", goodClaims()),
		signJWT(t, jwt.SigningMethodRS256, is.rsa, "k", goodClaims()), token(b)} {
		check("one id", signed, 0, nil, 4)
	}
	check("one id, another key", signJWT(t, jwt.SigningMethodES256, c, "k", goodClaims()), time.Minute, ErrUnauthenticated, 4)

	is.only = set(slices.Repeat([]crypto.PublicKey{&a.PublicKey}, maxSameID+1)...)
	v = is.verifier(t, nil)
	check("more keys than are tried", token(a), 0, ErrUnavailable, 5)
}

func FuzzParseJWKS(f *testing.F) {
	f.Add([]byte(`{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"a","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`))
	f.Add([]byte(`{"keys":[{"kty":"EC","crv":"P-256","x":"AA","y":"AA"},{"kty":"oct","k":"AAAA"}]}`))
	f.Add([]byte(`{"keys":[{"kty":"RSA","n":"AQ","e":"AQAB"}]}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, body []byte) {
		keys, err := parseJWKS(body)
		if err == nil && len(keys) == 0 {
			t.Fatal("an empty set is an error")
		}
		for kid, same := range keys {
			if len(same) > maxSameID {
				t.Fatalf("%d keys %q", len(same), kid)
			}
			for _, k := range same {
				if !usable(k.public) {
					t.Fatalf("unusable key %T", k.public)
				}
			}
		}
	})
}
