package bus_test

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-project/weir/pkg/bus"
)

func TestParseAddress(t *testing.T) {
	for in, want := range map[string]string{
		"kafka://localhost:9092":                                    "",
		"kafka://a:1,b:2,[::1]:3/":                                  "kafka://a:1,b:2,[::1]:3",
		"kafka+tls://a:1?ca_file=/c.pem&cert_file=/c&key_file=/k":   "kafka+tls://a:1?ca_file=%2Fc.pem&cert_file=%2Fc&key_file=%2Fk",
		"kafka+tls://a:1?ca=/c.pem&cert=/c&key=/k":                  "kafka+tls://a:1?ca_file=%2Fc.pem&cert_file=%2Fc&key_file=%2Fk",
		"kafka+tls://u:s3cr%40t@a:1":                                "kafka+tls://u:***@a:1?sasl=plain",
		"kafka://u@a:1,b:2?sasl=SCRAM-SHA-512&password_file=/etc/p": "kafka://u@a:1,b:2?password_file=%2Fetc%2Fp&sasl=scram-sha-512",
	} {
		a, err := bus.ParseAddress(in)
		if want == "" {
			want = in
		}
		if err != nil || a.String() != want {
			t.Errorf("%s: %s, %v; want %s", in, a, err, want)
		}
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
			if strings.Contains(fmt.Sprintf(verb, a), "s3cr") {
				t.Errorf("%s shows the password", verb)
			}
		}
	}
	a, _ := bus.ParseAddress("kafka://a:1,b:2")
	if !slices.Equal(a.Brokers, []string{"a:1", "b:2"}) {
		t.Errorf("brokers %v", a.Brokers)
	}
	for _, in := range []string{
		"", "localhost:9092", "http://a:1", "kafka://", "kafka://a", "kafka://a:1,", "kafka://:1", "kafka://a:1?x=y",
		"kafka://a:1?ca_file=/x", "kafka+tls://a:1?cert_file=/x", "kafka://a:1?sasl=plain", "kafka://u:secret@a:1?sasl=gssapi",
		"kafka://u@a:1", "kafka://u:secret@a:1?password_file=/p", "kafka://:secret@a:1", "kafka://a:1?password_file=/p",
		"kafka://u:sec%ret@a:1", "kafka+tls://a:1?ca_file=/x&ca_file=/y", "kafka+tls://a:1?ca_file=/x&ca=/y",
	} {
		if _, err := bus.ParseAddress(in); err == nil || strings.Contains(err.Error(), "sec") {
			t.Errorf("%q: %v", in, err)
		}
	}
}

func FuzzParseAddress(f *testing.F) {
	f.Add("kafka://a:1,b:2?sasl=plain")
	f.Add("kafka+tls://u:p@[::1]:9?password_file=x")
	f.Fuzz(func(t *testing.T, s string) {
		a, err := bus.ParseAddress(s)
		if err == nil && len(a.Brokers) == 0 {
			t.Errorf("%q: accepted without a broker", s)
		}
	})
}

func TestConnectTellsMissingFilesAndOptions(t *testing.T) {
	options := func(address string) bus.Options {
		a, err := bus.ParseAddress(address)
		if err != nil {
			t.Fatal(err)
		}
		return bus.Options{Address: a, ClientID: "x", Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), Now: time.Now}
	}
	for _, address := range []string{"kafka://u@a:1?password_file=/none", "kafka+tls://a:1?ca_file=/none", "kafka+tls://a:1?cert_file=/none&key_file=/none"} {
		if _, err := bus.Connect(options(address)); err == nil || !strings.Contains(err.Error(), "/none") {
			t.Errorf("%s: %v", address, err)
		}
	}
	if _, err := bus.Connect(bus.Options{}); err == nil {
		t.Error("empty options were taken")
	}
}
