package budgetstore

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestConnectAddresses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("p@ss/word\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{
		"redis://h:1/0", "rediss://u:p@h:1", "redis+cluster://h:1?addr=h:2", "redis+sentinel://h:1/0?master_name=m",
		"redis+sentinel://h:1/0?master_name=m&password_file=" + file, "rediss+cluster://weir@h:1?addr=h:2&password_file=" + file,
	} {
		client, err := connect(url, nil, 0, time.Second)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		_ = client.Close()
	}
	client, err := connect("redis://weir@h:1/2?password_file="+file, nil, 0, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	o := client.(*redis.Client).Options()
	if o.Username != "weir" || o.Password != "p@ss/word" || o.DB != 2 || o.Addr != "h:1" {
		t.Errorf("%s:%s at %s, %d", o.Username, o.Password, o.Addr, o.DB)
	}
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	for _, url := range []string{
		"", "http://h", "redis+x://h", "h:1", "redis://:sec%ret@h", "redis://:sec#ret@h:1", "redis://:sec/ret@h:1",
		"redis://:secret@h:1?password_file=" + file, "redis://h:1?password_file=/none", "redis://h:1?x=y",
		"redis+sentinel://h:1?master_name=m&password=sec", "redis+sentinel://h:1?master_name=m&sentinel_password=sec&sentinel_password_file=" + file,
		"redis+sentinel://h:1?master_name=m&sentinel_password_file=/none", "redis+sentinel://h:1/m?master_name=m",
	} {
		if _, err := connect(url, nil, 0, time.Second); err == nil || strings.Contains(err.Error(), "sec") {
			t.Errorf("%q: %v", url, err)
		}
	}
}

// Goal: Redis' login stands in the same place in every form, and the Sentinels' is their own; who guesses where the master's name
// goes is told.
func TestSentinelAddress(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("s3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := bySentinel("rediss://weir:p@h:1/2?master_name=m&addr=i:2&sentinel_username=watch&sentinel_password_file=" + file)
	if err != nil {
		t.Fatal(err)
	}
	if o.Username != "weir" || o.Password != "p" || o.SentinelUsername != "watch" || o.SentinelPassword != "s3" || o.MasterName != "m" || o.DB != 2 ||
		o.TLSConfig == nil || strings.Join(o.SentinelAddrs, " ") != "h:1 i:2" {
		t.Errorf("%+v", o)
	}
	for address, want := range map[string]string{
		"redis+sentinel://:secret@h:26379/mymaster":        "?master_name=mymaster",
		"redis+sentinel://:secret@h:26379":                 "add ?master_name=NAME",
		"redis+sentinel://:secret@h:26379/0":               "add ?master_name=NAME",
		"redis+sentinel://h:26379,i:26379/0":               "each further one as ?addr=host:port",
		"redis+sentinel://h:1?password=secret":             "login stands before the host",
		"redis+sentinel://h:1/0?master_name=m&sentinels=i": "unexpected option: sentinels",
	} {
		if _, err := connect(address, nil, 0, time.Second); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// Goal: every example of an address in docs/parts.md can be used as it stands.
func TestAddressesOfTheDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/parts.md")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("p"), 0o600); err != nil {
		t.Fatal(err)
	}
	kinds := map[string]bool{}
	for _, m := range regexp.MustCompile("`(rediss?(\\+[a-z]+)?)(://[^`…]+)`").FindAllStringSubmatch(string(page), -1) {
		kinds[m[1]] = true
		client, err := connect(strings.ReplaceAll(m[1]+m[3], "/etc/weir/redis", file), nil, 0, time.Second)
		if err != nil {
			t.Errorf("%s: %v", m[0], err)
			continue
		}
		_ = client.Close()
	}
	if len(kinds) != 6 {
		t.Errorf("examples of %v", kinds)
	}
}
