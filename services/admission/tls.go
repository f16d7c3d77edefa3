package admission

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"github.com/weir-project/weir/pkg/identity"
)

// TLSFiles are the PEM files of the API's own TLS.
type TLSFiles struct {
	Cert, Key string
	// ClientCA, where given, asks callers for a certificate of its authorities.
	ClientCA string
}

// newTLSFiles refuses half a configuration: plain HTTP must not come about by a missing flag.
func newTLSFiles(cert, key, clientCA string) (*TLSFiles, error) {
	switch {
	case cert == "" && key == "" && clientCA == "":
		return nil, nil
	case cert == "" || key == "":
		return nil, errors.New("-tls-cert-file and -tls-key-file belong together, and -client-ca-file needs both")
	}
	f := &TLSFiles{Cert: cert, Key: key, ClientCA: clientCA}
	_, err := identity.ServerTLS(f.Cert, f.Key, f.ClientCA, nil) // so that a bad file is told before anything starts
	return f, err
}

// listen takes the port, with TLS where it is configured.
func (s *Service) listen(ctx context.Context) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.cfg.HTTP)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	s.listener = l
	if s.cfg.TLS == nil {
		return nil
	}
	cfg, err := identity.ServerTLS(s.cfg.TLS.Cert, s.cfg.TLS.Key, s.cfg.TLS.ClientCA, s.deps.Now)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	s.listener = tls.NewListener(l, cfg)
	return nil
}
