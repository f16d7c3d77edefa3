package identity

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"time"
)

// LookupIdentity finds the tenant that lists an external identity such as "mtls:spiffe://example.org/agents".
type LookupIdentity func(identity string) (tenant string, ok bool)

// VerifyCertificate makes a principal of a client certificate that the TLS handshake has verified. Its name is its one
// URI (SPIFFE), or, where it has none, its common name; the tenant is the one that lists mtls:NAME. A certificate is
// judged again at each request, because a connection may outlive it.
func VerifyCertificate(state *tls.ConnectionState, lookup LookupIdentity, now time.Time) (Principal, error) {
	if state == nil || len(state.VerifiedChains) == 0 || len(state.PeerCertificates) == 0 {
		return Principal{}, fmt.Errorf("%w: no client certificate", ErrUnauthenticated)
	}
	leaf := state.PeerCertificates[0]
	if now.Before(leaf.NotBefore) || now.After(leaf.NotAfter) {
		return Principal{}, fmt.Errorf("%w: the client certificate is not valid now", ErrUnauthenticated)
	}
	name := leaf.Subject.CommonName
	switch len(leaf.URIs) {
	case 0:
	case 1:
		name = leaf.URIs[0].String()
	default: // SPIFFE allows one; which of several was meant nobody can say
		return Principal{}, fmt.Errorf("%w: the client certificate has several URIs", ErrUnauthenticated)
	}
	if name == "" {
		return Principal{}, fmt.Errorf("%w: the client certificate has neither URI nor common name", ErrUnauthenticated)
	}
	tenant, ok := lookup("mtls:" + name)
	if !ok {
		return Principal{}, fmt.Errorf("%w: no tenant lists mtls:%.256s", ErrForbiddenTenant, name)
	}
	return Principal{Method: MethodMTLS, KeyID: name, Tenants: []string{tenant}}, nil
}

// ServerTLS reads certificate, key and the authorities of client certificates. Without clientCA nobody is asked for a
// certificate; with it one may come (API keys still work) and must then be valid: another authority's, or one that has
// expired, ends the handshake.
func ServerTLS(certFile, keyFile, clientCAFile string, now func() time.Time) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("identity: TLS certificate: %w", err)
	}
	cfg := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, Time: now}
	if clientCAFile == "" {
		return cfg, nil
	}
	raw, err := os.ReadFile(clientCAFile)
	if err != nil {
		return nil, fmt.Errorf("identity: client CA: %w", err)
	}
	cfg.ClientCAs, cfg.ClientAuth = x509.NewCertPool(), tls.VerifyClientCertIfGiven
	if !cfg.ClientCAs.AppendCertsFromPEM(raw) {
		return nil, errors.New("identity: client CA: no PEM certificate in " + clientCAFile)
	}
	return cfg, nil
}
