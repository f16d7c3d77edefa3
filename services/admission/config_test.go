package admission

import (
	"bytes"
	"crypto/rand"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-project/weir/pkg/identity"
	"github.com/weir-project/weir/pkg/testkit"
)

var update = flag.Bool("update", false, "rewrite golden files")

func TestHelp(t *testing.T) {
	var out bytes.Buffer
	if _, code, run := LoadConfig([]string{"-help"}, func(string) (string, bool) { return "", false }, &out, &out); code != 0 || run {
		t.Fatalf("exit %d, run %v", code, run)
	}
	testkit.Golden(t, *update, filepath.Join("testdata", "help.txt"), out.String())
}

func good(t *testing.T) map[string]string {
	t.Helper()
	key, err := identity.NewTokenKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	text, err := key.PEM()
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{"ADMISSION_KAFKA": "kafka://127.0.0.1:9092", "ADMISSION_REDIS": "redis://:redis-password@127.0.0.1:6379",
		"ADMISSION_POSTGRES": "postgres://weir:pg-password@127.0.0.1/weir", "ADMISSION_HMAC_SECRET": strings.Repeat("s3cret", 8), "ADMISSION_TOKEN_KEY": string(text)}
}

// Goal: a bad configuration is refused whole, by flag name, and nothing secret is printed.
func TestConfig(t *testing.T) {
	load := func(env map[string]string, args ...string) (int, bool, string) {
		var out bytes.Buffer
		_, code, run := LoadConfig(args, func(k string) (string, bool) { v, ok := env[k]; return v, ok }, &out, &out)
		return code, run, out.String()
	}
	if code, run, out := load(good(t)); code != 0 || !run {
		t.Fatalf("a good configuration: %d %v %s", code, run, out)
	}
	code, run, out := load(good(t), "-check-config")
	if code != 0 || run || !strings.Contains(out, "max-lease = 2m0s (default)") {
		t.Errorf("-check-config: %d %v %s", code, run, out)
	}
	for _, secret := range []string{"s3cret", "redis-password", "pg-password", "PRIVATE KEY"} {
		if strings.Contains(out, secret) {
			t.Errorf("%s is printed: %s", secret, out)
		}
	}
	for name, want := range map[string]string{"ADMISSION_KAFKA": "-kafka", "ADMISSION_REDIS": "-redis", "ADMISSION_POSTGRES": "-postgres",
		"ADMISSION_HMAC_SECRET": "HMAC", "ADMISSION_TOKEN_KEY": "token key"} {
		env := good(t)
		delete(env, name)
		if code, _, out := load(env); code != 2 || !strings.Contains(out, want) {
			t.Errorf("without %s: %d %s", name, code, out)
		}
	}
	for _, args := range [][]string{{"-jwt-jwks-url", "http://x"}, {"-max-lease", "1ms"}, {"-deadline", "0s"}, {"-token-ttl", "1s"}, {"-sample-admits", "-1"}, {"-nonsense"}, {"extra"}} {
		if code, _, _ := load(good(t), args...); code != 2 {
			t.Errorf("%v: exit %d", args, code)
		}
	}
}

// Goal: half a way in is refused at the start, and its secrets are not printed.
func TestConfigOfCallers(t *testing.T) {
	load := func(args ...string) (Config, int, string) {
		var out bytes.Buffer
		env := good(t)
		env["ADMISSION_SLACK_SIGNING_SECRET"], env["ADMISSION_TELEGRAM_SECRET"] = "slack-s3cret-of-the-tests", "111:telegram-s3cret-of-the-tests"
		cfg, code, _ := LoadConfig(args, func(k string) (string, bool) { v, ok := env[k]; return v, ok }, &out, &out)
		return cfg, code, out.String()
	}
	if cfg, code, out := load(); code != 0 || cfg.Slack == nil || cfg.Telegram == nil || cfg.TLS != nil {
		t.Errorf("%d %s", code, out)
	}
	if _, _, out := load("-check-config"); strings.Contains(out, "s3cret") {
		t.Errorf("a secret is printed: %s", out)
	}
	short := filepath.Join(t.TempDir(), "short")
	if err := os.WriteFile(short, []byte("x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"-tls-cert-file", short}, {"-tls-key-file", short}, {"-client-ca-file", short}, {"-tls-cert-file", short, "-tls-key-file", short},
		{"-slack-signing-secret-file", short}, {"-telegram-secret-file", short}} {
		if _, code, _ := load(args...); code != 2 {
			t.Errorf("%v: exit %d", args, code)
		}
	}
}
