package identity

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Goal: only a verified certificate with one name, valid at the time of the request, is a credential. Handshakes with
// real authorities are tested in services/admission.
func TestVerifyCertificate(t *testing.T) {
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	uri := func(s string) *url.URL {
		u, err := url.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	leaf := func(cn string, uris ...*url.URL) *x509.Certificate {
		return &x509.Certificate{Subject: pkix.Name{CommonName: cn}, URIs: uris, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour)}
	}
	state := func(c *x509.Certificate) *tls.ConnectionState {
		return &tls.ConnectionState{PeerCertificates: []*x509.Certificate{c}, VerifiedChains: [][]*x509.Certificate{{c}}}
	}
	twice := leaf("batch")
	twice.Subject.Names = []pkix.AttributeTypeAndValue{{Type: commonName, Value: "mallory"}, {Type: commonName, Value: "batch"}}
	unverified := state(leaf("batch"))
	unverified.VerifiedChains = nil
	lookup := func(identity string) (string, bool) {
		tenant, ok := map[string]string{"mtls:batch": "acme", "mtls:spiffe://example.org/a": "beta", "mtls:": "gamma", "mtls:host:1": "gamma"}[identity]
		return tenant, ok
	}
	for _, c := range []struct {
		name  string
		state *tls.ConnectionState
		at    time.Time
		want  string
		err   error
	}{
		{"common name", state(leaf("batch")), now, "acme batch", nil},
		{"URI", state(leaf("batch", uri("spiffe://example.org/a"))), now, "beta spiffe://example.org/a", nil},
		{"unknown URI", state(leaf("batch", uri("spiffe://example.org/b"))), now, "", ErrForbiddenTenant},
		{"unknown name", state(leaf("mallory")), now, "", ErrForbiddenTenant},
		{"no name", state(leaf("")), now, "", ErrUnauthenticated},
		{"two URIs", state(leaf("batch", uri("spiffe://example.org/a"), uri("spiffe://example.org/b"))), now, "", ErrUnauthenticated},
		{"URI as common name", state(leaf("spiffe://example.org/a")), now, "", ErrUnauthenticated},
		{"common name with a colon", state(leaf("host:1")), now, "", ErrUnauthenticated},
		{"common name as URI", state(leaf("mallory", uri("batch"))), now, "", ErrUnauthenticated},
		{"two common names", state(twice), now, "", ErrUnauthenticated},
		{"expired on a connection that lasts", state(leaf("batch")), now.Add(2 * time.Hour), "", ErrUnauthenticated},
		{"not valid yet", state(leaf("batch")), now.Add(-2 * time.Hour), "", ErrUnauthenticated},
		{"not verified", unverified, now, "", ErrUnauthenticated},
		{"no TLS", nil, now, "", ErrUnauthenticated},
		{"no certificate", &tls.ConnectionState{}, now, "", ErrUnauthenticated},
	} {
		p, err := VerifyCertificate(c.state, lookup, c.at)
		if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
			t.Errorf("%s: %v, want %v", c.name, err, c.err)
		}
		if err == nil && (p.Tenants[0]+" "+p.KeyID != c.want || p.Method != MethodMTLS || len(p.Tenants) != 1) {
			t.Errorf("%s: %+v", c.name, p)
		}
	}
}

func TestServerTLSRefuses(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, files := range [][3]string{{"none", "none", ""}, {empty, empty, ""}} {
		if _, err := ServerTLS(files[0], files[1], files[2], time.Now); err == nil || !strings.Contains(err.Error(), "TLS certificate") {
			t.Errorf("%v: %v", files, err)
		}
	}
}
