package bus_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/testkit"
)

// right is the password of the tests' user; near is what a person may write instead. No error may show either.
const right, near = "r1ght:of-the/tests", "r1ght:of-the/test"

// secured is a broker with TLS and what a client needs for it.
type secured struct {
	t                        *testing.T
	cluster                  *kfake.Cluster
	ca, otherCA              string // files
	cert, key                string // of a client
	passwordFile, wrongWords string
}

// startSecured runs a broker behind TLS whose only user is weir, by the one mechanism ("" for none).
func startSecured(t *testing.T, mechanism string, clients tls.ClientAuthType) *secured {
	t.Helper()
	authority, other, until := testkit.NewAuthority(t), testkit.NewAuthority(t), time.Now().Add(time.Hour)
	s := &secured{t: t}
	s.cert, s.key, s.ca = authority.Files(authority.Issue("client", until))
	_, _, s.otherCA = other.Files(other.Issue("client", until))
	s.passwordFile, s.wrongWords = s.file(right+"\n"), s.file(near+"\n")
	opts := []kfake.Opt{kfake.NumBrokers(2), kfake.GroupMinSessionTimeout(100 * time.Millisecond), kfake.TLS(&tls.Config{
		Certificates: []tls.Certificate{authority.Issue("broker", until)}, ClientAuth: clients, ClientCAs: authority.Pool(),
	})}
	if mechanism != "" {
		opts = append(opts, kfake.EnableSASL(), kfake.Superuser(mechanism, "weir", right))
	}
	var err error
	if s.cluster, err = kfake.NewCluster(opts...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.cluster.Close)
	return s
}

func (s *secured) file(text string) string {
	s.t.Helper()
	name := filepath.Join(s.t.TempDir(), "password")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return name
}

// at is a client URL of the broker.
func (s *secured) at(scheme, user string, query ...string) string {
	q := url.Values{}
	for i := 0; i < len(query); i += 2 {
		q.Set(query[i], query[i+1])
	}
	return scheme + "://" + user + strings.Join(s.cluster.ListenAddrs(), ",") + "?" + q.Encode()
}

func (s *secured) kafka(address string) *kafka {
	s.t.Helper()
	a, err := bus.ParseAddress(address)
	if err != nil {
		s.t.Fatal(err)
	}
	return &kafka{t: s.t, cluster: s.cluster, address: a}
}

// Every kind of client that services are made of works through one address with TLS and a login.
func TestTLSWithSASL(t *testing.T) {
	for _, mechanism := range []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"} {
		t.Run(mechanism, func(t *testing.T) {
			s := startSecured(t, mechanism, tls.NoClientCert)
			k := s.kafka(s.at("kafka+tls", "weir@", "sasl", strings.ToLower(mechanism), "password_file", s.passwordFile, "ca_file", s.ca))
			roundTrip(t, k, "t")
			// The password in the address, its special characters escaped.
			k = s.kafka(s.at("kafka+tls", url.UserPassword("weir", right).String()+"@", "sasl", mechanism, "ca_file", s.ca))
			if err := k.admin().Ping(within(t)); err != nil {
				t.Error(err)
			}
		})
	}
}

// The brokers ask for a client's certificate, with or without a login.
func TestMutualTLS(t *testing.T) {
	s := startSecured(t, "", tls.RequireAndVerifyClientCert)
	roundTrip(t, s.kafka(s.at("kafka+tls", "", "ca_file", s.ca, "cert_file", s.cert, "key_file", s.key)), "t")
	s = startSecured(t, "SCRAM-SHA-512", tls.RequireAndVerifyClientCert)
	roundTrip(t, s.kafka(s.at("kafka+tls", "weir@", "sasl", "scram-sha-512", "password_file", s.passwordFile, "ca_file", s.ca, "cert_file", s.cert, "key_file", s.key)), "t")
}

// roundTrip makes a topic, writes to it, and reads it as a group, as a follower and as a reader.
func roundTrip(t *testing.T, k *kafka, name string) {
	t.Helper()
	topic, admin := testTopic(name, 2), k.admin()
	if err := admin.EnsureTopics(within(t), []bus.Topic{topic}, 1); err != nil {
		t.Fatal(err)
	}
	if err := admin.CheckTopics(within(t), []bus.Topic{topic}); err != nil {
		t.Error(err)
	}
	k.fill(topic, 0, 0, 20)
	k.fill(topic, 1, 20, 20)
	conn, _ := k.connect("reads")
	handled, followed, read := newLog(), newLog(), newLog()
	run(t, conn, bus.ConsumerConfig{Group: "g." + name, Topics: []bus.Topic{topic}}, func(_ context.Context, _ bus.Claim, batch []bus.Record) error {
		handled.add(batch)
		return nil
	})
	f := conn.Follow(topic, func(r bus.Record) error { followed.add([]bus.Record{r}); return nil })
	ctx, stop := context.WithCancel(within(t))
	defer stop()
	go func() { _ = f.Run(ctx) }()
	all := func(v map[int32][]string) bool {
		return slices.Equal(v[0], numbers(0, 20)) && slices.Equal(v[1], numbers(20, 20))
	}
	handled.wait(ctx, t, "all is handled", all)
	followed.wait(ctx, t, "all is followed", all)
	for p := range int32(2) {
		if err := conn.ReadPartition(ctx, topic, p, -1, -1, func(r bus.Record) error { read.add([]bus.Record{r}); return nil }); err != nil {
			t.Error(err)
		}
	}
	read.wait(ctx, t, "all is read", all)
}

// A person who got one thing wrong reads which, and nobody reads the password.
func TestRefusedConnectionsSayWhy(t *testing.T) {
	s := startSecured(t, "SCRAM-SHA-512", tls.NoClientCert)
	mutual := startSecured(t, "", tls.RequireAndVerifyClientCert)
	plain := startKafka(t)
	wrong := url.UserPassword("weir", near).String() + "@"
	for _, c := range []struct {
		name, address string
		says          []string
	}{
		{"wrong password", s.at("kafka+tls", wrong, "sasl", "scram-sha-512", "ca_file", s.ca), []string{"login of weir", "scram-sha-512", "wrong password"}},
		{"wrong password in a file", s.at("kafka+tls", "weir@", "sasl", "scram-sha-512", "password_file", s.wrongWords, "ca_file", s.ca), []string{"wrong password"}},
		{"unknown user", s.at("kafka+tls", "nobody@", "sasl", "scram-sha-512", "password_file", s.passwordFile, "ca_file", s.ca), []string{"login of nobody", "unknown user"}},
		{"another mechanism", s.at("kafka+tls", wrong, "ca_file", s.ca), []string{"login of weir by plain", "mechanism"}},
		{"no login", s.at("kafka+tls", "", "ca_file", s.ca), []string{"is SASL missing?"}},
		{"another authority", s.at("kafka+tls", wrong, "ca_file", s.otherCA), []string{"certificate signed by unknown authority"}},
		{"no authority", s.at("kafka+tls", wrong), []string{"certificate signed by unknown authority"}},
		{"another name", s.at("kafka+tls", wrong, "ca_file", s.ca, "server_name", "kafka.example"), []string{"kafka.example"}},
		{"plaintext against TLS", s.at("kafka", wrong), []string{"is TLS missing?"}},
		{"no client certificate", mutual.at("kafka+tls", "", "ca_file", mutual.ca), []string{"certificate"}},
		{"a client certificate of another authority", mutual.at("kafka+tls", "", "ca_file", mutual.ca, "cert_file", s.cert, "key_file", s.key), []string{"certificate"}},
		{"TLS against plaintext", "kafka+tls://" + plain.cluster.ListenAddrs()[0], []string{"TLS handshake", "kafka://"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // kgo tries a login three times
			ctx := within(t)
			if c.name == "TLS against plaintext" { // nobody answers: it takes as long as it may
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, 6*time.Second)
				defer cancel()
			}
			logged, err := s.kafka(c.address).pinged(ctx)
			if err == nil {
				t.Fatal("it was let in")
			}
			for _, want := range c.says {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v: no %q", err, want)
				}
			}
			if strings.Contains(err.Error()+logged, "r1ght") {
				t.Errorf("the password is in %v\n%s", err, logged)
			}
		})
	}
}

// pinged asks for an answer, and returns what the client logged meanwhile.
func (k *kafka) pinged(ctx context.Context) (logged string, answer error) {
	k.t.Helper()
	var log text // a closed client may still be at a line
	conn, err := bus.Connect(bus.Options{Address: k.address, ClientID: "x", Log: slog.New(slog.NewTextHandler(&log, nil)), Metrics: prometheus.NewRegistry(), Now: time.Now})
	if err != nil {
		k.t.Fatal(err)
	}
	admin, err := conn.Admin()
	if err != nil {
		k.t.Fatal(err)
	}
	answer = admin.Ping(ctx)
	admin.Close()
	return log.String(), answer
}

// text is a buffer that may be read while it is written.
type text struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (t *text) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.Write(b)
}

func (t *text) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.String()
}

// Apache Kafka answers a refused login with a word of its own, where kfake ends the connection.
func TestRefusedLoginIsTold(t *testing.T) {
	s := startSecured(t, "PLAIN", tls.NoClientCert)
	s.cluster.ControlKey(int16(kmsg.SASLAuthenticate), func(req kmsg.Request) (kmsg.Response, error, bool) {
		s.cluster.KeepControl()
		resp := req.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		resp.ErrorCode = kerr.SaslAuthenticationFailed.Code
		resp.ErrorMessage = kmsg.StringPtr("Authentication failed: Invalid username or password")
		return resp, nil, true
	})
	_, err := s.kafka(s.at("kafka+tls", "weir@", "password_file", s.wrongWords, "ca_file", s.ca)).pinged(within(t))
	if err == nil || !strings.Contains(err.Error(), "Invalid username or password") || strings.Contains(err.Error(), "r1ght") {
		t.Error(err)
	}
}

// A password file is read anew for every connection: a changed one is obeyed without a restart.
func TestPasswordIsRotated(t *testing.T) {
	s := startSecured(t, "SCRAM-SHA-256", tls.NoClientCert)
	k := s.kafka(s.at("kafka+tls", "weir@", "sasl", "scram-sha-256", "password_file", s.wrongWords, "ca_file", s.ca))
	admin := k.admin()
	if err := admin.Ping(within(t)); err == nil {
		t.Error("a wrong password was taken")
	}
	if err := os.WriteFile(s.wrongWords, []byte(right), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := admin.Ping(within(t)); err != nil {
		t.Errorf("the new password is not used: %v", err)
	}
}
