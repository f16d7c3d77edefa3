package bus

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"syscall"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// The values of Address.Mechanism and of the query parameter "sasl".
const (
	saslPlain  = "plain"
	saslSHA256 = "scram-sha-256"
	saslSHA512 = "scram-sha-512"
)

// Address is a Kafka client URL:
//
//	kafka[+tls]://[user[:password]@]host:port[,host:port…][?ca_file=FILE&cert_file=FILE&key_file=FILE&server_name=NAME&sasl=MECHANISM&password_file=FILE]
//
// sasl is plain (the default where there is a user), scram-sha-256 or scram-sha-512. password_file is preferred to a
// password in the URL: it is read anew for every connection, so it can be rotated. ca_file is the authority that signed the brokers'
// certificates (the system's otherwise), cert_file and key_file the certificate that brokers with mutual TLS ask for; ca,
// cert and key are taken for them as well. Unknown parameters are errors.
type Address struct {
	Brokers    []string
	TLS        bool
	CAFile     string
	CertFile   string
	KeyFile    string
	ServerName string
	User       string
	Mechanism  string
	// PasswordFile holds the password; surrounding white space is dropped.
	PasswordFile string
	password     string
}

// ParseAddress reads a client URL. Its errors never contain the password.
func ParseAddress(s string) (Address, error) {
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok || scheme != "kafka" && scheme != "kafka+tls" {
		return Address{}, errors.New("kafka address: want kafka://host:port,… or kafka+tls://host:port,…")
	}
	a := Address{TLS: scheme == "kafka+tls"}
	rest, query, _ := strings.Cut(rest, "?")
	// The last @ ends the credentials: a password may contain one.
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		user, password, _ := strings.Cut(rest[:i], ":")
		var errUser, errPass error
		a.User, errUser = url.PathUnescape(user)
		a.password, errPass = url.PathUnescape(password)
		if errUser != nil || errPass != nil || a.User == "" {
			return Address{}, errors.New("kafka address: malformed credentials")
		}
		rest = rest[i+1:]
	}
	for _, broker := range strings.Split(strings.TrimSuffix(rest, "/"), ",") {
		if host, port, err := net.SplitHostPort(broker); err != nil || host == "" || port == "" {
			return Address{}, fmt.Errorf("kafka address: broker %q is not host:port", broker)
		}
		a.Brokers = append(a.Brokers, broker)
	}
	if err := a.parseQuery(query); err != nil {
		return Address{}, fmt.Errorf("kafka address: %w", err)
	}
	return a, nil
}

func (a *Address) parseQuery(query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return errors.New("malformed query")
	}
	fields := map[string]*string{"ca_file": &a.CAFile, "cert_file": &a.CertFile, "key_file": &a.KeyFile, "ca": &a.CAFile,
		"cert": &a.CertFile, "key": &a.KeyFile, "server_name": &a.ServerName, "sasl": &a.Mechanism, "password_file": &a.PasswordFile}
	for name, v := range values {
		field, ok := fields[name]
		if !ok || len(v) != 1 || *field != "" {
			return fmt.Errorf("unknown or repeated parameter %q", name)
		}
		*field = v[0]
	}
	if a.Mechanism = strings.ToLower(a.Mechanism); a.Mechanism == "" && a.User != "" { // Kafka writes SCRAM-SHA-512
		a.Mechanism = saslPlain
	}
	switch a.Mechanism {
	case "", saslPlain, saslSHA256, saslSHA512:
	default:
		return fmt.Errorf("unknown sasl mechanism %q", a.Mechanism)
	}
	switch {
	case a.Mechanism != "" && (a.User == "" || (a.password == "") == (a.PasswordFile == "")):
		return errors.New("sasl needs a user and one of a password and password_file")
	case a.PasswordFile != "" && a.User == "":
		return errors.New("password_file without a user")
	case !a.TLS && (a.CAFile != "" || a.CertFile != "" || a.KeyFile != "" || a.ServerName != ""):
		return errors.New("ca_file, cert_file, key_file and server_name need kafka+tls://")
	case (a.CertFile == "") != (a.KeyFile == ""):
		return errors.New("cert_file and key_file go together")
	}
	return nil
}

// String is the URL with the password as stars; it may be logged.
func (a Address) String() string {
	var b strings.Builder
	b.WriteString("kafka")
	if a.TLS {
		b.WriteString("+tls")
	}
	b.WriteString("://")
	if a.User != "" {
		b.WriteString(url.PathEscape(a.User))
		if a.password != "" {
			b.WriteString(":***")
		}
		b.WriteByte('@')
	}
	b.WriteString(strings.Join(a.Brokers, ","))
	q := url.Values{}
	for _, p := range [][2]string{{"ca_file", a.CAFile}, {"cert_file", a.CertFile}, {"key_file", a.KeyFile}, {"server_name", a.ServerName},
		{"sasl", a.Mechanism}, {"password_file", a.PasswordFile}} {
		if p[1] != "" {
			q.Set(p[0], p[1])
		}
	}
	if len(q) > 0 {
		b.WriteString("?" + q.Encode())
	}
	return b.String()
}

// GoString keeps the password out of %#v as well.
func (a Address) GoString() string { return "bus.Address(" + a.String() + ")" }

// Format keeps the password out of every other verb, including %+v.
func (a Address) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(a.String())) }

func (a Address) options() ([]kgo.Opt, error) {
	opts := []kgo.Opt{kgo.SeedBrokers(a.Brokers...)}
	if a.TLS {
		cfg, err := a.tlsConfig()
		if err != nil {
			return nil, err
		}
		opts = append(opts, kgo.DialTLSConfig(cfg))
	}
	if a.Mechanism != "" {
		if _, err := a.secret(); err != nil { // a missing file is told at start, not at the first connection
			return nil, err
		}
		opts = append(opts, kgo.SASL(a.mechanism()))
	}
	return opts, nil
}

// explain says what a broker means that ends a connection, or keeps silent, without a word.
func (a Address) explain(err error) error {
	_, told := errors.AsType[*kgo.ErrFirstReadEOF](err) // kgo has a sentence for it: TLS or SASL is missing
	switch {
	case a.Mechanism != "" && !told && errors.Is(err, io.EOF):
		return fmt.Errorf("the broker ended the connection at the login of %s by %s: a wrong password, an unknown user, or another mechanism is wanted: %w",
			a.User, a.Mechanism, err)
	case a.TLS && (errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)): // overtook the broker's alert
		return fmt.Errorf("the broker ended the connection within TLS: it wants a client certificate (cert_file, key_file), or another one: %w", err)
	case a.TLS && errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no answer to a TLS handshake: the broker is away, or its port wants kafka:// without TLS: %w", err)
	}
	return err
}

func (a Address) mechanism() sasl.Mechanism {
	scramAuth := func(context.Context) (scram.Auth, error) {
		p, err := a.secret()
		return scram.Auth{User: a.User, Pass: p}, err
	}
	switch a.Mechanism {
	case saslSHA256:
		return scram.Sha256(scramAuth)
	case saslSHA512:
		return scram.Sha512(scramAuth)
	}
	return plain.Plain(func(context.Context) (plain.Auth, error) {
		p, err := a.secret()
		return plain.Auth{User: a.User, Pass: p}, err
	})
}

func (a Address) secret() (string, error) {
	if a.PasswordFile == "" {
		return a.password, nil
	}
	b, err := os.ReadFile(a.PasswordFile)
	if err != nil {
		return "", fmt.Errorf("kafka password: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

func (a Address) tlsConfig() (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: a.ServerName}
	if a.CAFile != "" {
		pem, err := os.ReadFile(a.CAFile)
		if err != nil {
			return nil, fmt.Errorf("kafka ca: %w", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("kafka ca: no certificate in %s", a.CAFile)
		}
	}
	if a.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(a.CertFile, a.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("kafka client certificate: %w", err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}
