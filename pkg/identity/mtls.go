package identity

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// LookupIdentity finds the tenant that lists an external identity such as "mtls:spiffe://example.org/agents".
type LookupIdentity func(identity string) (tenant string, ok bool)

// VerifyCertificate makes a principal of a client certificate that the TLS handshake has verified; the tenant is the one
// that lists mtls:NAME (certificateName). A certificate is judged again at each request, because a connection may outlive it.
func VerifyCertificate(state *tls.ConnectionState, lookup LookupIdentity, now time.Time) (Principal, error) {
	if state == nil || len(state.VerifiedChains) == 0 || len(state.PeerCertificates) == 0 {
		return Principal{}, fmt.Errorf("%w: no client certificate", ErrUnauthenticated)
	}
	leaf := state.PeerCertificates[0]
	if now.Before(leaf.NotBefore) || now.After(leaf.NotAfter) {
		return Principal{}, fmt.Errorf("%w: the client certificate is not valid now", ErrUnauthenticated)
	}
	name, err := certificateName(leaf)
	if err != nil {
		return Principal{}, fmt.Errorf("%w: the client certificate %w", ErrUnauthenticated, err)
	}
	tenant, ok := lookup("mtls:" + name)
	if !ok {
		return Principal{}, fmt.Errorf("%w: no tenant lists mtls:%.256s", ErrForbiddenTenant, name)
	}
	return Principal{Method: MethodMTLS, KeyID: name, Tenants: []string{tenant}}, nil
}

// certificateName is the certificate's one URI (SPIFFE), or, where it has none, its one common name. Neither can pass for the
// other, since an authority may check one and leave the other to whoever asks: every absolute URI has a colon (RFC 3986,
// section 3; RFC 5280, section 4.2.1.6 allows no other), and no common name may have one. Of several, nobody can say which
// was meant.
func certificateName(leaf *x509.Certificate) (string, error) {
	switch len(leaf.URIs) {
	case 0:
	case 1:
		if !leaf.URIs[0].IsAbs() {
			return "", errors.New("has a URI without a scheme")
		}
		return leaf.URIs[0].String(), nil
	default:
		return "", errors.New("has several URIs")
	}
	names := 0
	for _, attribute := range leaf.Subject.Names {
		if attribute.Type.Equal(commonName) {
			names++
		}
	}
	switch cn := leaf.Subject.CommonName; {
	case names > 1: // x509 keeps the last
		return "", errors.New("has several common names")
	case cn == "":
		return "", errors.New("has neither URI nor common name")
	case strings.Contains(cn, ":"):
		return "", errors.New("has no URI, and a common name with a colon, which only a URI may have")
	default:
		return cn, nil
	}
}

// commonName is id-at-commonName (RFC 5280, appendix A.1).
var commonName = asn1.ObjectIdentifier{2, 5, 4, 3}

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
