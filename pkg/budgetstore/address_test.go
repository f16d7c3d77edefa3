package budgetstore

import (
	"os"
	"path/filepath"
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
	} {
		if _, err := connect(url, nil, 0, time.Second); err == nil || strings.Contains(err.Error(), "sec") {
			t.Errorf("%q: %v", url, err)
		}
	}
}
