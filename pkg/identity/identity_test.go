package identity

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/gen/weirv1"
)

func newKey(t testing.TB) (APIKey, *weirv1.ApiKey) {
	t.Helper()
	k, err := NewAPIKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k, &weirv1.ApiKey{KeyId: k.ID, SecretHash: k.Hash, TenantIds: []string{"acme", "beta"}}
}

// Goal: only the exact key is let in. Method: one row an attack on a key that is accepted.
func TestAPIKeyAttacks(t *testing.T) {
	k, stored := newKey(t)
	other, _ := newKey(t)
	lookup := func(id string) (*weirv1.ApiKey, bool) { return stored, id == k.ID }
	if p, err := VerifyAPIKey(k.Text, lookup, epoch); err != nil || p.KeyID != k.ID || p.Tenants[0] != "acme" || p.Method != MethodAPIKey {
		t.Fatalf("%+v, %v", p, err)
	}
	_, secret, _ := SplitAPIKey(k.Text)
	for name, text := range map[string]string{
		"empty": "", "prefix only": "wk_", "id only": "wk_" + k.ID, "no secret": "wk_" + k.ID + "_", "no id": "wk__" + secret,
		"other prefix": "sk_" + k.ID + "_" + secret, "upper case": strings.ToUpper(k.Text), "other secret": "wk_" + k.ID + other.Text[19:],
		"unknown id": other.Text, "the hash itself": fmt.Sprintf("wk_%s_%x", k.ID, k.Hash), "one more": k.Text + "a", "one less": k.Text[:len(k.Text)-1],
		"space": " " + k.Text, "three parts": k.Text + "_" + secret, "long": "wk_" + k.ID + "_" + strings.Repeat("a", 1<<20), "nul": k.Text + "\x00",
	} {
		if _, err := VerifyAPIKey(text, lookup, epoch); !errors.Is(err, ErrUnauthenticated) {
			t.Errorf("%s: %v", name, err)
		} else if strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the error tells the secret: %v", name, err)
		}
	}
	for name, change := range map[string]func(*weirv1.ApiKey){
		"revoked":    func(a *weirv1.ApiKey) { a.RevokedAt = timestamppb.New(epoch) },
		"no tenants": func(a *weirv1.ApiKey) { a.TenantIds = nil },
		"no hash":    func(a *weirv1.ApiKey) { a.SecretHash = nil },
		"short hash": func(a *weirv1.ApiKey) { a.SecretHash = a.SecretHash[:4] },
	} {
		_, stored = newKey(t)
		stored.SecretHash = k.Hash
		change(stored)
		if _, err := VerifyAPIKey(k.Text, lookup, epoch); !errors.Is(err, ErrUnauthenticated) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNewAPIKey(t *testing.T) {
	a, err := NewAPIKey(bytes.NewReader(make([]byte, 64)))
	b, err2 := NewAPIKey(bytes.NewReader(make([]byte, 64)))
	if err != nil || err2 != nil || a.Text != b.Text || !strings.HasPrefix(a.Text, "wk_"+a.ID+"_") {
		t.Errorf("%+v %+v %v %v", a, b, err, err2)
	}
	if _, err := NewAPIKey(bytes.NewReader(nil)); err == nil {
		t.Error("no randomness must be an error")
	}
}

func TestPrincipalTenant(t *testing.T) {
	p := Principal{Tenants: []string{"acme", "beta"}}
	for _, c := range []struct {
		asked, want string
		err         error
	}{{"", "", ErrTenantNotNamed}, {"acme", "acme", nil}, {"beta", "beta", nil}, {"gamma", "", ErrForbiddenTenant}, {"ACME", "", ErrForbiddenTenant}, {" acme", "", ErrForbiddenTenant}} {
		if got, err := p.Tenant(c.asked); got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%q: %q, %v", c.asked, got, err)
		}
	}
	for _, tenants := range [][]string{{"acme"}, {"acme", "acme"}} { // a JWT may say the same twice, or two names of it
		if got, err := (Principal{Tenants: tenants}).Tenant(""); got != "acme" || err != nil {
			t.Errorf("%v: %q, %v", tenants, got, err)
		}
	}
	if _, err := (Principal{}).Tenant(""); !errors.Is(err, ErrForbiddenTenant) {
		t.Errorf("nobody: %v", err)
	}
}

func secretOf(t testing.TB, fill byte) Secret {
	t.Helper()
	s, err := NewSecret(bytes.Repeat([]byte{fill}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestHMAC(t *testing.T) {
	s, body := secretOf(t, 'k'), []byte(`{"id":"1"}`)
	// Independent value: printf '{"id":"1"}' | openssl dgst -sha256 -hmac kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk
	sig := Sign(s, body)
	if sig != "v1=de0873a8e8a39208cd422e49caadefbf6367461a64e89cc82bd6fa84fc5b4829" || !Verify(s, body, sig) {
		t.Fatalf("signature %q", sig)
	}
	for name, bad := range map[string]string{"empty": "", "no version": sig[3:], "v2": "v2=" + sig[3:], "upper": strings.ToUpper(sig),
		"truncated": sig[:20], "last digit": sig[:66] + string('0'+('1'-sig[66])&1), "other secret": Sign(secretOf(t, 'x'), body)} {
		if bad != sig && Verify(s, body, bad) {
			t.Errorf("%s accepted", name)
		}
	}
	if Verify(s, append([]byte(" "), body...), sig) || Verify(Secret{}, body, Sign(Secret{}, body)) || Verify(Secret{}, body, "") {
		t.Error("altered body or no secret accepted")
	}
	if out := fmt.Sprintf("%v %+v %#v %s", s, s, s, s); strings.Contains(out, "kkk") || strings.Contains(out, "107") {
		t.Errorf("the secret prints: %s", out)
	}
	if _, err := NewSecret(make([]byte, 31)); err == nil {
		t.Error("a short secret must be refused")
	}
}

func sampleReceipt() Receipt {
	return Receipt{Tenant: "acme", ReservationID: "r1", ReservedAt: epoch.UnixNano(), ExpiresAt: epoch.Add(time.Minute).UnixNano(),
		Fingerprint: [16]byte{1, 2, 255}, Epoch: 7, Day: 20261130, Month: 202611, HeldNanos: 12, InputTokens: 10,
		Call: []byte("\x01openai")}
}

func TestReceiptAttacks(t *testing.T) {
	s, other := secretOf(t, 'k'), secretOf(t, 'o')
	text, err := SignReceipt(s, sampleReceipt())
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := SignReceipt(s, sampleReceipt()); again != text {
		t.Error("the same receipt must give the same text")
	}
	if got, err := VerifyReceipt(s, text); err != nil || fmt.Sprint(got) != fmt.Sprint(sampleReceipt()) {
		t.Fatalf("%+v, %v", got, err)
	}
	head, tail, _ := strings.Cut(text, ".")
	foreign, _ := SignReceipt(other, sampleReceipt())
	evil := sampleReceipt()
	evil.Tenant = "evil"
	forged, _ := SignReceipt(other, evil)
	forgedHead, _, _ := strings.Cut(forged, ".")
	nobody := sampleReceipt()
	nobody.Tenant = ""
	empty, _ := SignReceipt(s, nobody)
	signed := func(payload string) string {
		sum := s.mac([]byte(receiptPrefix + payload))
		return base64.RawURLEncoding.EncodeToString([]byte(payload)) + "." + base64.RawURLEncoding.EncodeToString(sum[:])
	}
	for name, bad := range map[string]string{
		"JSON": signed(`{"t":"acme","r":"r1","at":1,"exp":2,"f":"0102ff00000000000000000000000000","e":7}`), "no payload": signed(""),
		"empty": "", "payload only": head, "no signature": head + ".", "other secret": foreign, "payload swapped": forgedHead + "." + tail,
		"not base64": "!!." + tail, "padding": head + "=." + tail, "no tenant": empty, "long": text + strings.Repeat("A", maxReceipt),
		"signature of a record value": head + "." + Sign(s, []byte(head))[3:], "newline": head + "\n." + tail,
	} {
		if _, err := VerifyReceipt(s, bad); !errors.Is(err, ErrUnauthenticated) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := SignReceipt(Secret{}, sampleReceipt()); err == nil {
		t.Error("no secret: must not sign")
	}
	if _, err := VerifyReceipt(Secret{}, text); !errors.Is(err, ErrUnauthenticated) {
		t.Errorf("no secret: %v", err)
	}
}

func FuzzVerifyReceipt(f *testing.F) {
	s := secretOf(f, 'k')
	good, err := SignReceipt(s, sampleReceipt())
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{good, "", ".", "e30.e30", strings.Repeat(".", 9)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if r, err := VerifyReceipt(s, text); err == nil && text != good {
			t.Fatalf("forged receipt accepted: %q → %+v", text, r)
		}
	})
}

// Goal: whatever a payload is, it is read as what was written, or refused.
func FuzzDecodeReceipt(f *testing.F) {
	f.Add(sampleReceipt().append(nil))
	f.Add(Receipt{Tenant: "a", ReservationID: "b", ReservedAt: 1, ExpiresAt: -1, Epoch: 1 << 62, Day: -5}.append(nil))
	f.Add([]byte(`{"t":"a","r":"b","at":1}`))
	f.Add([]byte(`{"t":"a","r":"b","at":1}{}`))
	f.Add([]byte(`null`))
	f.Add([]byte{receiptVersion, 200})
	f.Fuzz(func(t *testing.T, payload []byte) {
		r, err := decodeReceipt(payload)
		if err != nil {
			return
		}
		if again, err := decodeReceipt(r.append(nil)); err != nil || r.Tenant == "" || r.ReservationID == "" || r.ReservedAt <= 0 || fmt.Sprint(again) != fmt.Sprint(r) {
			t.Fatalf("%+v\n%+v, %v", r, again, err)
		}
	})
}

func tokenKey(t testing.TB) TokenKey {
	t.Helper()
	k, err := NewTokenKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func sampleExecution() Execution {
	return Execution{Tenant: "acme", Root: "root-1", Agent: "lead", CostCenter: "sales", Depth: 0, MaxDepth: 2, MaxCost: 5_000_000_000,
		ExpiresAt: epoch.Add(time.Hour)}
}

// Goal: an execution token proves what admission signed and nothing else. Method: one row an attack.
func TestExecutionTokenAttacks(t *testing.T) {
	key, other := tokenKey(t), tokenKey(t)
	good, err := key.SignExecutionToken(sampleExecution(), epoch)
	if err != nil {
		t.Fatal(err)
	}
	got, err := VerifyExecutionToken(good, key.Only(), epoch)
	if want := sampleExecution(); err != nil || !got.ExpiresAt.Equal(want.ExpiresAt) || got.Tenant != want.Tenant || got.Root != want.Root ||
		got.MaxCost != want.MaxCost || got.MaxDepth != want.MaxDepth || got.Agent != want.Agent || got.CostCenter != want.CostCenter {
		t.Fatalf("%+v, %v", got, err)
	}
	foreign, _ := other.SignExecutionToken(sampleExecution(), epoch)
	noTenant := sampleExecution()
	noTenant.Tenant = ""
	nobody, _ := key.SignExecutionToken(noTenant, epoch)
	private := key.private
	claims := func() jwt.MapClaims {
		return jwt.MapClaims{"iss": tokenIssuer, "aud": tokenAudience, "tenant": "acme", "root": "r", "depth": 0, "exp": epoch.Add(time.Hour).Unix()}
	}
	changed := func(name string, value any) jwt.MapClaims { c := claims(); c[name] = value; return c }
	typed := func(c jwt.Claims) string {
		return signJWT(t, jwt.SigningMethodEdDSA, private, key.ID, c, "typ", tokenType)
	}
	if _, err := VerifyExecutionToken(typed(claims()), key.Only(), epoch); err != nil {
		t.Fatalf("the base of the table: %v", err)
	}
	for name, token := range map[string]string{
		"empty": "", "none": signJWT(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, key.ID, claims(), "typ", tokenType),
		"HS256 by the public key": signJWT(t, jwt.SigningMethodHS256, []byte(private.Public().(ed25519.PublicKey)), key.ID, claims(), "typ", tokenType),
		"key not published":       foreign, "other kid": signJWT(t, jwt.SigningMethodEdDSA, other.private, key.ID, claims(), "typ", tokenType),
		"no typ": signJWT(t, jwt.SigningMethodEdDSA, private, key.ID, claims()), "wrong audience": typed(changed("aud", "x")),
		"wrong issuer": typed(changed("iss", "x")), "expired": typed(changed("exp", epoch.Unix()-1)), "no expiry": typed(changed("exp", nil)),
		"altered tenant": repayload(good, `"acme"`, `"evil"`), "altered depth": repayload(good, `"depth":0`, `"depth":-`),
		"altered limit": repayload(good, `"max_cost_usd":"5"`, `"max_cost_usd":"9"`), "no tenant": nobody, "negative depth": typed(changed("depth", -1)),
		"fraction as depth": typed(changed("depth", 0.5)), "cost is no amount": typed(changed("max_cost_usd", "1e999")), "no root": typed(changed("root", "")),
		"too long": good + strings.Repeat("A", maxToken), "signature cut": good[:len(good)-4],
		"crit":                       signJWT(t, jwt.SigningMethodEdDSA, private, key.ID, claims(), "typ", tokenType, "crit", "b64"),
		"a key of its own, jwk":      signJWT(t, jwt.SigningMethodEdDSA, other.private, key.ID, claims(), "typ", tokenType, "jwk", "x"),
		"a caller's JWT by this key": signJWT(t, jwt.SigningMethodEdDSA, private, key.ID, goodClaims(), "typ", "JWT"),
		"maximum depth below zero":   typed(changed("max_depth", -1)),
		"negative cost":              typed(changed("max_cost_usd", "-1")), "a limit of nothing": typed(changed("max_cost_usd", "0")),
		"not valid yet": typed(changed("nbf", epoch.Add(time.Hour).Unix())),
	} {
		if e, err := VerifyExecutionToken(token, key.Only(), epoch); !errors.Is(err, ErrUnauthenticated) || !reflect.DeepEqual(e, Execution{}) {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
	}
	// A replay months later is judged at the event's time.
	if _, err := VerifyExecutionToken(good, key.Only(), epoch.Add(30*24*time.Hour)); !errors.Is(err, ErrUnauthenticated) {
		t.Errorf("expired now: %v", err)
	}
}

func TestSigningKeyRecords(t *testing.T) {
	key, other := tokenKey(t), tokenKey(t)
	token, _ := key.SignExecutionToken(sampleExecution(), epoch)
	for name, change := range map[string]func(*weirv1.SigningKey){
		"shadowed":      func(k *weirv1.SigningKey) { k.PublicKey = other.Record().PublicKey },
		"other alg":     func(k *weirv1.SigningKey) { k.Algorithm = "RS256" },
		"short":         func(k *weirv1.SigningKey) { k.PublicKey = k.PublicKey[:31] },
		"not yet valid": func(k *weirv1.SigningKey) { k.NotBefore = timestamppb.New(epoch.Add(time.Second)) },
		"retired":       func(k *weirv1.SigningKey) { k.NotAfter = timestamppb.New(epoch) },
	} {
		record := key.Record()
		change(record)
		lookup := func(string) (*weirv1.SigningKey, bool) { return record, true }
		if _, err := VerifyExecutionToken(token, lookup, epoch); !errors.Is(err, ErrUnauthenticated) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTokenKeyText(t *testing.T) {
	key := tokenKey(t)
	text, err := key.PEM()
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := ParseTokenKey(text)
	if err != nil || loaded.ID != key.ID {
		t.Fatalf("%v, %v", loaded, err)
	}
	if out := fmt.Sprintf("%v %+v %#v", loaded, loaded, loaded); strings.Count(out, key.ID) != 3 || len(out) > 120 {
		t.Errorf("the key prints: %s", out)
	}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(rsaKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"empty": nil, "garbage": []byte("x"), "rsa": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}),
		"other block": pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})} {
		if _, err := ParseTokenKey(content); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestChildLimitsOnlyFall(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := sampleExecution()
		e.MaxDepth = rapid.IntRange(0, 4).Draw(t, "maxDepth")
		e.MaxCost = money.Nano(rapid.Int64Range(0, 9).Draw(t, "maxCost"))
		for level := 1; level < 6; level++ {
			child, err := e.Child("a", "", rapid.IntRange(0, 4).Draw(t, "d"), money.Nano(rapid.Int64Range(0, 9).Draw(t, "c")), fmt.Sprintf("b%d", level), epoch.Add(time.Duration(rapid.IntRange(0, 120).Draw(t, "m"))*time.Minute))
			if err != nil {
				if !errors.Is(err, ErrDepthExceeded) {
					t.Fatal(err)
				}
				return
			}
			if child.Depth != level || child.Tenant != e.Tenant || child.Root != e.Root || child.ParentAgent != e.Agent || child.CostCenter != e.CostCenter {
				t.Fatalf("%+v", child)
			}
			if e.MaxDepth > 0 && (child.MaxDepth == 0 || child.MaxDepth > e.MaxDepth || child.Depth > child.MaxDepth) ||
				e.MaxCost > 0 && (child.MaxCost == 0 || child.MaxCost > e.MaxCost) || child.ExpiresAt.After(e.ExpiresAt) {
				t.Fatalf("limits rose: %+v → %+v", e, child)
			}
			checkBranches(t, e, child)
			e = child
		}
	})
}

func FuzzVerifyExecutionToken(f *testing.F) {
	key := tokenKey(f)
	good, err := key.SignExecutionToken(sampleExecution(), epoch)
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{good, "", "a.b.c", good[:40], "..", "wk_a_b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if e, err := VerifyExecutionToken(text, key.Only(), epoch); err == nil && text != good {
			t.Fatalf("forged token accepted: %q → %+v", text, e)
		}
	})
}

func FuzzSplitAPIKey(f *testing.F) {
	for _, seed := range []string{"wk_abc_def", "wk__", "", "wk_a_b_c", "wk_ABC_def"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		id, secret, err := SplitAPIKey(text)
		if err == nil && (id == "" || secret == "" || "wk_"+id+"_"+secret != text) {
			t.Fatalf("%q → %q %q", text, id, secret)
		}
	})
}
