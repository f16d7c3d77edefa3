//go:build integration

package bus_test

import (
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/embedded/part"
	"github.com/weir-project/weir/pkg/testkit"
)

// TestApacheKafkaWithTLSAndSASL gives Apache Kafka a second listener, SASL_SSL with every mechanism, and goes the round
// trip through it; what a person may get wrong is told by the broker itself.
func TestApacheKafkaWithTLSAndSASL(t *testing.T) {
	authority, until := testkit.NewAuthority(t), time.Now().Add(time.Hour)
	cert, key, ca := authority.Files(authority.Issue("kafka", until))
	plainPort, port := freePort(t), freePort(t)
	node := testkit.ApacheKafkaServer(t, part.Config{Port: plainPort}, 1, secureListener(t, plainPort, port, cert, key, ca)...)[0]
	addScramUsers(t, node.Address)
	at := func(mechanism, password string) *kafka {
		address := fmt.Sprintf("kafka+tls://%s@127.0.0.1:%d?sasl=%s&ca_file=%s", url.UserPassword("weir", password), port, mechanism, url.QueryEscape(ca))
		a, err := bus.ParseAddress(address)
		if err != nil {
			t.Fatal(err)
		}
		return &kafka{t: t, address: a}
	}
	for i, mechanism := range []string{"plain", "scram-sha-256", "scram-sha-512"} {
		roundTrip(t, at(mechanism, right), fmt.Sprint("t", i))
		logged, err := at(mechanism, near).pinged(within(t))
		if err == nil || !strings.Contains(err.Error(), "SASL_AUTHENTICATION_FAILED") || strings.Contains(err.Error()+logged, "r1ght") {
			t.Errorf("%s: a wrong password: %v\n%s", mechanism, err, logged)
		}
	}
	a := at("plain", right)
	a.address.TLS = false
	if _, err := a.pinged(within(t)); err == nil || !strings.Contains(err.Error(), "tls endpoint") {
		t.Errorf("without TLS: %v", err)
	}
	a = at("plain", right)
	a.address.Brokers = []string{fmt.Sprintf("127.0.0.1:%d", plainPort)}
	if _, err := a.pinged(within(t)); err == nil || !strings.Contains(err.Error(), "TLS") {
		t.Errorf("TLS against the plain listener: %v", err)
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	port, err := part.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// secureListener is Kafka's own wording for a listener with TLS, PEM files and three mechanisms.
func secureListener(t *testing.T, plainPort, port int, cert, key, ca string) []string {
	t.Helper()
	chain := ""
	for _, name := range []string{key, cert} {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		chain += string(b)
	}
	store := cert + ".chain"
	if err := os.WriteFile(store, []byte(chain), 0o600); err != nil {
		t.Fatal(err)
	}
	quorum := freePort(t)
	const scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
	return []string{
		fmt.Sprintf("listeners=PLAINTEXT://127.0.0.1:%d,SECURE://127.0.0.1:%d,CONTROLLER://127.0.0.1:%d", plainPort, port, quorum),
		fmt.Sprintf("controller.quorum.voters=1@127.0.0.1:%d", quorum),
		fmt.Sprintf("advertised.listeners=PLAINTEXT://127.0.0.1:%d,SECURE://127.0.0.1:%d", plainPort, port),
		"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL",
		"inter.broker.listener.name=PLAINTEXT",
		"ssl.keystore.type=PEM", "ssl.keystore.location=" + store, "ssl.truststore.type=PEM", "ssl.truststore.location=" + ca,
		"listener.name.secure.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
		`listener.name.secure.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_weir="` + right + `";`,
		"listener.name.secure.scram-sha-256.sasl.jaas.config=" + scram, "listener.name.secure.scram-sha-512.sasl.jaas.config=" + scram,
	}
}

// addScramUsers makes the user through the plain listener, as an administrator would.
func addScramUsers(t *testing.T, address string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.TrimPrefix(address, "kafka://")))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, mechanism := range []kadm.ScramMechanism{kadm.ScramSha256, kadm.ScramSha512} { // Kafka takes a user once a request
		altered, err := kadm.NewClient(client).AlterUserSCRAMs(within(t), nil, []kadm.UpsertSCRAM{{User: "weir", Mechanism: mechanism, Iterations: 4096, Password: right}})
		if err == nil {
			err = altered.Error()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
