package config_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/config"
)

type settings struct {
	kafka *string
	batch *int
	quick *bool
	lease *time.Duration
	key   *config.Secret
}

func define(env map[string]string) (*config.Set, settings) {
	s := config.New("cost-attributor", func(name string) (string, bool) { v, ok := env[name]; return v, ok })
	c := settings{
		kafka: s.Address("kafka", "kafka://127.0.0.1:9092", "Kafka's client URL"),
		batch: s.Int("max-batch", 500, "records per batch"),
		quick: s.Bool("quick", false, "do less"),
		lease: s.Duration("lease", 2*time.Minute, "longest lease"),
		key:   s.Secret("receipt-key", "HMAC key of receipts"),
	}
	s.Require("kafka")
	s.Check(func() error {
		if *c.batch < 1 {
			return errors.New("-max-batch must be at least 1")
		}
		return nil
	})
	return s, c
}

func load(t *testing.T, env map[string]string, args ...string) (settings, int, bool, string, string) {
	t.Helper()
	s, c := define(env)
	var out, errOut strings.Builder
	code, run := s.Load(args, &out, &errOut)
	return c, code, run, out.String(), errOut.String()
}

func secretFile(t *testing.T, content string) string {
	t.Helper()
	f := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(f, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestFlagBeatsEnvironmentBeatsDefault(t *testing.T) {
	env := map[string]string{"COST_ATTRIBUTOR_MAX_BATCH": "7", "COST_ATTRIBUTOR_LEASE": "5s", "COST_ATTRIBUTOR_QUICK": "true",
		"COST_ATTRIBUTOR_RECEIPT_KEY": "hush"}
	c, code, run, _, errOut := load(t, env, "-max-batch", "9", "-kafka=kafka://k:1")
	if code != 0 || !run || errOut != "" {
		t.Fatalf("%d %v %s", code, run, errOut)
	}
	if *c.batch != 9 || *c.lease != 5*time.Second || !*c.quick || *c.kafka != "kafka://k:1" || c.key.Value() != "hush" {
		t.Errorf("%+v", c)
	}
	c, _, _, _, _ = load(t, nil)
	if *c.batch != 500 || c.key.Value() != "" {
		t.Errorf("defaults %+v", c)
	}
}

func TestMaskURL(t *testing.T) {
	for in, want := range map[string]string{
		"redis://h:1/0": "redis://h:1/0",
		"kafka+tls://u:p@h@[::1]:1,b:2?sasl=plain&ca_file=/c": "kafka+tls://u:***@[::1]:1,b:2?sasl=plain&ca_file=/c",
		"kafka://u@a:1?password_file=/f":                      "kafka://u@a:1?password_file=/f",
		"redis+sentinel://:p@h:1?sentinel_password=p&db=1":    "redis+sentinel://:***@h:1?sentinel_password=***&db=1",
		"postgres://u@h/d?sslpassword=p&sslmode=verify-full":  "postgres://u@h/d?sslpassword=***&sslmode=verify-full",
		"host=h user=u PASSWORD = 'a b'":                      "***",
		"host=/run user=u":                                    "host=/run user=u",
		"http://h:8123/?user=u&password=p":                    "http://h:8123/?user=u&password=***",
		"postgres://u:p@h/d":                                  "postgres://u:***@h/d",
	} {
		if got := config.MaskURL(in); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

func TestCheckConfigPrintsWithoutSecrets(t *testing.T) {
	env := map[string]string{"COST_ATTRIBUTOR_KAFKA": "kafka+tls://u:hush@a:1,b:2?password=hush&ca=x"}
	_, code, run, out, errOut := load(t, env, "-check-config", "-receipt-key-file", secretFile(t, "hush\n"), "-lease", "1m")
	if code != 0 || run || errOut != "" || strings.Contains(out, "hush") {
		t.Errorf("%d %v %s %s", code, run, out, errOut)
	}
	for _, want := range []string{"kafka = kafka+tls://u:***@a:1,b:2?password=***&ca=x (env)\n", "lease = 1m0s (flag)\n", "max-batch = 500 (default)\n", "receipt-key = ***\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("missing %q in\n%s", want, out)
		}
	}
}

func TestAllErrorsAreToldAtOnce(t *testing.T) {
	env := map[string]string{"COST_ATTRIBUTOR_LEASE": "hush", "COST_ATTRIBUTOR_RECEIPT_KEY": "hush"}
	_, code, run, _, errOut := load(t, env, "-check-config", "-max-batch=0", "-kafka=", "-receipt-key-file=/none", "extra")
	if code != 2 || run || strings.Contains(errOut, "hush") {
		t.Errorf("%d %v", code, run)
	}
	for _, want := range []string{`unexpected argument "extra"`, "COST_ATTRIBUTOR_LEASE: not a value",
		"-max-batch must be at least 1", "-kafka (or COST_ATTRIBUTOR_KAFKA) is required", "both -receipt-key-file and COST_ATTRIBUTOR_RECEIPT_KEY"} {
		if !strings.Contains(errOut, want) {
			t.Errorf("missing %q in\n%s", want, errOut)
		}
	}
	for _, args := range [][]string{{"-none"}, {"-max-batch=x"}, {"-receipt-key-file=/none"}, {"-receipt-key-file=" + secretFile(t, " ")}} {
		if _, code, run, _, _ := load(t, nil, args...); code != 2 || run {
			t.Errorf("%v: %d %v", args, code, run)
		}
	}
}

func TestHelpIsStable(t *testing.T) {
	_, code, run, out, _ := load(t, map[string]string{"COST_ATTRIBUTOR_MAX_BATCH": "7"}, "-help")
	golden, err := os.ReadFile("testdata/help.golden")
	if err != nil || code != 0 || run || out != string(golden) {
		t.Errorf("%v %d %v; -help is now:\n%s", err, code, run, out)
	}
	s, _ := define(nil)
	if err := s.Parse([]string{"-h"}); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("-h: %v", err)
	}
}

func TestSecretNeverPrints(t *testing.T) {
	c, _, _, _, _ := load(t, map[string]string{"COST_ATTRIBUTOR_RECEIPT_KEY": "hush"})
	j, err := json.Marshal(c.key)
	text := fmt.Sprintf("%v %+v %#v %s %s", c.key, c.key, c.key, c.key, j)
	if err != nil || strings.Contains(text, "hush") {
		t.Error(text, err)
	}
}
