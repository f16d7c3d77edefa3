//go:build integration

package admission

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/testkit"
)

// Goal: a certificate of our authority is a credential for the tenant that lists it, and any other is none. Method: one
// row a certificate, over real handshakes.
func TestMutualTLS(t *testing.T) {
	acme, beta := contract(), contract()
	acme.Identities = []string{"mtls:spiffe://example.org/acme/agents", "mtls:acme-batch", "mtls:shared"}
	beta.Identities = []string{"mtls:shared"}
	w := newWorld(t, map[string]tenant.Contract{"acme": acme, "beta": beta})
	ours, theirs := testkit.NewAuthority(t), testkit.NewAuthority(t)
	tomorrow := time.Now().Add(24 * time.Hour)
	cert, key, ca := ours.Files(ours.Issue("admission", tomorrow))
	client := func(c ...tls.Certificate) *http.Client {
		tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ours.Pool(), Certificates: c}}
		t.Cleanup(tr.CloseIdleConnections)
		return &http.Client{Transport: tr}
	}
	r := w.startTLS(&TLSFiles{Cert: cert, Key: key, ClientCA: ca}, client())
	for _, c := range []struct {
		name    string
		with    *http.Client
		key     string
		asked   string
		want    string
		refused bool // in the handshake
	}{
		{name: "its URI", with: client(ours.Issue("whatever", tomorrow, "spiffe://example.org/acme/agents")), want: "200 acme"},
		{name: "its common name", with: client(ours.Issue("acme-batch", tomorrow)), want: "200 acme"},
		{name: "its own tenant asked for", with: client(ours.Issue("acme-batch", tomorrow)), asked: "acme", want: "200 acme"},
		{name: "another tenant asked for", with: client(ours.Issue("acme-batch", tomorrow)), asked: "beta", want: "403 forbidden_tenant"},
		{name: "an API key goes first", with: client(ours.Issue("acme-batch", tomorrow)), key: w.keys["beta"], want: "200 beta"},
		{name: "a wrong API key beside it", with: client(ours.Issue("acme-batch", tomorrow)), key: "wk_a_b", want: "401 unauthenticated"},
		{name: "an API key alone", with: client(), key: w.keys["beta"], want: "200 beta"},
		{name: "nothing", with: client(), want: "401 unauthenticated"},
		{name: "a name that no tenant lists", with: client(ours.Issue("stranger", tomorrow)), want: "403 forbidden_tenant"},
		{name: "a name that two tenants list", with: client(ours.Issue("shared", tomorrow)), want: "403 forbidden_tenant"},
		{name: "a URI does not fall back to the common name", with: client(ours.Issue("acme-batch", tomorrow, "spiffe://example.org/x")), want: "403 forbidden_tenant"},
		{name: "two URIs", with: client(ours.Issue("acme-batch", tomorrow, "spiffe://example.org/acme/agents", "spiffe://example.org/x")), want: "401 unauthenticated"},
		{name: "its URI as a common name", with: client(ours.Issue("spiffe://example.org/acme/agents", tomorrow)), want: "401 unauthenticated"},
		{name: "its common name as a URI", with: client(ours.Issue("whatever", tomorrow, "acme-batch")), want: "401 unauthenticated"},
		{name: "another authority", with: client(theirs.Issue("acme-batch", tomorrow)), refused: true},
		{name: "another authority, with an API key", with: client(theirs.Issue("acme-batch", tomorrow)), key: w.keys["beta"], refused: true},
		{name: "expired", with: client(ours.Issue("acme-batch", time.Now().Add(-time.Minute))), refused: true},
		{name: "not valid yet", with: client(ours.Issue("acme-batch", time.Now().Add(72*time.Hour))), refused: true},
	} {
		got, err := askBudget(c.with, r.url, c.key, c.asked)
		if (err != nil) != c.refused || got != c.want {
			t.Errorf("%s: %q %v, want %q", c.name, got, err, c.want)
		}
	}
	if got, err := askBudget(http.DefaultClient, strings.Replace(r.url, "https", "http", 1), w.keys["acme"], ""); err == nil && strings.HasPrefix(got, "200") {
		t.Errorf("plain HTTP: %s", got)
	}
}

func askBudget(c *http.Client, url, key, asked string) (string, error) {
	req, err := http.NewRequest("GET", url+"/v1/budget", nil)
	if err != nil {
		return "", err
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	if asked != "" {
		req.Header.Set(tenantHeader, asked)
	}
	resp, err := c.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var out struct {
		Tenant string `json:"tenant_id"`
		Code   string `json:"code"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil {
		return fmt.Sprint(resp.StatusCode), nil
	}
	return fmt.Sprint(resp.StatusCode, " ", out.Tenant, out.Code), nil
}

// startTLS runs a replica behind TLS and waits for it.
func (w *world) startTLS(files *TLSFiles, c *http.Client) *replica {
	w.t.Helper()
	r := w.startUnready(func(cfg *Config) { cfg.TLS = files })
	r.url = strings.Replace(r.url, "http:", "https:", 1)
	w.eventually("ready", func() error {
		resp, err := c.Get(r.url + "/readyz")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%d", resp.StatusCode)
		}
		return nil
	})
	return r
}
