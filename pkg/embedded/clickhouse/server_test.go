package clickhouse

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-project/weir/pkg/embedded/part"
)

func TestServerConfiguration(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := Config{Config: part.Config{Dir: dir, Port: 18123}, Binary: "/usr/bin/clickhouse", FinancePasswordFile: secret}
	command, err := c.command()
	if err != nil {
		t.Fatal(err)
	}
	if command.Kind != part.KindClickHouse || command.Args[0] != "server" {
		t.Errorf("command %+v", command)
	}
	for name, wants := range map[string][]string{
		"config.xml": {"<listen_host>127.0.0.1</listen_host>", "<http_port>18123</http_port>", "<path>" + dir + "/users.xml</path>"},
		"users.xml": {"<readonly>1</readonly>", "<max_execution_time>20</max_execution_time>", "<max_memory_usage>1073741824</max_memory_usage>",
			"<min>1</min>", "<max>300</max>", "<password></password>", "<password_sha256_hex>2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881</password_sha256_hex>", "<ip>127.0.0.1</ip>"},
	} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range wants {
			if !strings.Contains(string(b), want) {
				t.Errorf("%s lacks %s:\n%s", name, want, b)
			}
		}
	}
}

func TestEachEngineKeepsItsOwnData(t *testing.T) {
	both := func(dir string) Config {
		return Config{Config: part.Config{Dir: dir}, Binary: "/usr/bin/clickhouse", Library: "libchdb.so", Self: []string{"weir", "part"}}
	}
	for made, want := range map[string]string{libraryData: part.KindChdb, serverData: part.KindClickHouse, "neither": part.KindClickHouse} {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, made), 0o755); err != nil {
			t.Fatal(err)
		}
		if command, err := both(dir).command(); err != nil || command.Kind != want {
			t.Errorf("data of %s: %s, %v; want %s", made, command.Kind, err, want)
		}
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, serverData), 0o755); err != nil {
		t.Fatal(err)
	}
	c := both(dir)
	c.Binary = ""
	if _, err := c.command(); err == nil {
		t.Error("the library was started on the program's data")
	}
}
