//go:build integration

package main

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/weir-project/weir/pkg/embedded/clickhouse"
	"github.com/weir-project/weir/pkg/embedded/part"
	"github.com/weir-project/weir/pkg/testkit"
)

// ownParts are parts as a user has them: with logins, and started by somebody else.
type ownParts struct {
	t                                   *testing.T
	kafka, redis, postgres, clickhouse  string   // addresses with the passwords
	byFile                              []string // flags with addresses whose passwords are in files
	kafkaSecret, redisSecret, clickPass string
	postgresSecret                      string
}

func startOwnParts(t *testing.T) *ownParts {
	t.Helper()
	o := &ownParts{t: t, kafkaSecret: "kafkas/s3cret", redisSecret: "rediss-s3cret", clickPass: "clickhouses-s3cret"}
	o.startKafka()
	o.startRedis()
	o.startClickHouse()
	o.postgres = testkit.Postgres(t) // has a password
	u, err := url.Parse(o.postgres)
	if err != nil {
		t.Fatal(err)
	}
	o.postgresSecret, _ = u.User.Password()
	// Postgres has a format of its own for such files, and its own name for them.
	secret := file(t, filepath.Join(t.TempDir(), "pgpass"), fmt.Sprintf("%s:%s:*:%s:%s\n", u.Hostname(), u.Port(), u.User.Username(), o.postgresSecret))
	query := u.Query()
	query.Set("passfile", secret)
	u.User, u.RawQuery = url.User(u.User.Username()), query.Encode()
	o.byFile = append(o.byFile, "--postgres", u.String())
	return o
}

// startKafka runs two brokers, in this process, that speak TLS and know one user by SCRAM.
func (o *ownParts) startKafka() {
	authority := testkit.NewAuthority(o.t)
	server := authority.Issue("kafka", time.Now().Add(24*time.Hour))
	_, _, ca := authority.Files(server)
	plain, _ := testkit.KafkaCluster(o.t, kfake.NumBrokers(2), kfake.TLS(&tls.Config{Certificates: []tls.Certificate{server}}),
		kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-512", "weir", o.kafkaSecret))
	brokers := strings.TrimPrefix(plain, "kafka://")
	query := "?sasl=scram-sha-512&ca_file=" + url.QueryEscape(ca)
	o.kafka = "kafka+tls://" + url.UserPassword("weir", o.kafkaSecret).String() + "@" + brokers + query
	secret := file(o.t, filepath.Join(o.t.TempDir(), "kafka.password"), o.kafkaSecret+"\n")
	o.byFile = append(o.byFile, "--kafka", "kafka+tls://weir@"+brokers+query+"&password_file="+url.QueryEscape(secret))
}

func (o *ownParts) startRedis() {
	o.redis = testkit.Redis(o.t)
	if got := o.askRedis("CONFIG SET requirepass " + o.redisSecret); got != "+OK" {
		o.t.Fatal(got)
	}
	secret := file(o.t, filepath.Join(o.t.TempDir(), "redis.password"), o.redisSecret+"\n")
	o.byFile = append(o.byFile, "--redis", o.redis+"?password_file="+url.QueryEscape(secret))
	o.redis = strings.Replace(o.redis, "redis://", "redis://:"+o.redisSecret+"@", 1)
}

// askRedis sends one inline command over a connection of its own, after its login if it has one.
func (o *ownParts) askRedis(command string) string {
	o.t.Helper()
	u, err := url.Parse(o.redis)
	if err != nil {
		o.t.Fatal(err)
	}
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		o.t.Fatal(err)
	}
	defer conn.Close()
	answers := bufio.NewReader(conn)
	if password, ok := u.User.Password(); ok {
		fmt.Fprintf(conn, "AUTH %s\r\n", password)
		if line, err := answers.ReadString('\n'); err != nil || line != "+OK\r\n" {
			o.t.Fatal(line, err)
		}
	}
	fmt.Fprintf(conn, "%s\r\n", command)
	line, err := answers.ReadString('\n')
	if err != nil {
		o.t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// startClickHouse runs the engine with a password and an empty database that is not called weir.
func (o *ownParts) startClickHouse() {
	engine, err := testkit.Installer(o.t).ClickHouse(o.t.Context())
	if err != nil {
		o.t.Fatal(err)
	}
	dir := o.t.TempDir()
	secret := file(o.t, filepath.Join(dir, "default.password"), o.clickPass+"\n")
	server, err := clickhouse.Start(o.t.Context(), clickhouse.Config{
		Config: part.Config{Dir: filepath.Join(dir, "data")}, Library: engine.Library, Binary: engine.Binary,
		Self:                []string{filepath.Join(os.Getenv(binEnv), "weir"), "part"},
		DefaultPasswordFile: secret,
	})
	if err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(func() {
		if err := server.Kill(); err != nil {
			o.t.Error(err)
		}
	})
	if _, err := testkit.QueryClickHouse(o.t.Context(), server.Address, "CREATE DATABASE bills"); err != nil {
		o.t.Fatal(err)
	}
	o.clickhouse = server.Address + "/bills"
	o.byFile = append(o.byFile, "--clickhouse", strings.Replace(o.clickhouse, ":"+o.clickPass+"@", "@", 1)+"?password_file="+url.QueryEscape(secret))
}

func (o *ownParts) flags() []string {
	return []string{"--kafka", o.kafka, "--redis", o.redis, "--postgres", o.postgres, "--clickhouse", o.clickhouse}
}

// noSecret wants none of the passwords in a text, escaped or not.
func (o *ownParts) noSecret(where, text string) {
	o.t.Helper()
	for _, secret := range []string{o.kafkaSecret, url.PathEscape(o.kafkaSecret), o.redisSecret, o.clickPass, o.postgresSecret} {
		if strings.Contains(text, secret) {
			o.t.Errorf("%s shows a password: %s", where, text)
		}
	}
}

// checkWrongPasswords gives `up` one wrong password after the other: the part is named, the password is not.
func (o *ownParts) checkWrongPasswords(p *place) {
	o.t.Helper()
	for flag, wrong := range map[string]struct{ address, says string }{
		"--kafka":      {strings.Replace(o.kafka, url.PathEscape(o.kafkaSecret), "wr0ng", 1), "login of weir"},
		"--redis":      {strings.Replace(o.redis, o.redisSecret, "wr0ng", 1), "WRONGPASS"},
		"--postgres":   {strings.Replace(o.postgres, o.postgresSecret, "wr0ng", 1), "password authentication failed"},
		"--clickhouse": {strings.Replace(o.clickhouse, o.clickPass, "wr0ng", 1), "Authentication failed"},
	} {
		args := append([]string{"up"}, o.flags()...)
		for i := range args {
			if args[i] == flag {
				args[i+1] = wrong.address
			}
		}
		a := p.run(args...)
		if a.code != 3 || !strings.Contains(a.err, strings.TrimPrefix(flag, "--")) || !strings.Contains(a.err, wrong.says) || strings.Contains(a.out+a.err, "wr0ng") {
			o.t.Errorf("a wrong password for %s: %+v", flag, a)
		}
		o.noSecret("the refusal", a.out+a.err)
	}
	if len(p.pids()) != 0 {
		o.t.Errorf("started all the same: %v", p.pids())
	}
}

// checkStatus wants four parts of the user's own, told by addresses without passwords.
func (o *ownParts) checkStatus(p *place) {
	o.t.Helper()
	s := p.status()
	if len(s.Parts) != 4 {
		o.t.Errorf("%d parts", len(s.Parts))
	}
	for _, x := range s.Parts {
		if x.State != "external" || x.PID != nil || x.Kind != "external" || !strings.Contains(x.Address, ":***@") {
			o.t.Errorf("%+v", x)
		}
	}
	for _, args := range [][]string{{"status"}, {"status", "--json"}} {
		a := p.must(args...)
		o.noSecret("weir status", a.out+a.err)
	}
}

// checkBooks wants the bill to say something, and the auditor to agree with everything.
func (o *ownParts) checkBooks(p *place, want string) {
	o.t.Helper()
	p.wait("the bill says "+want, func() bool {
		a := p.run("bill", "--tenant", "acme", "--month", p.month, "--json")
		o.noSecret("weir bill", a.out+a.err)
		return a.code == 0 && strings.Contains(a.out, want)
	})
	if a := p.audit(); a.code != 0 || !strings.Contains(a.out, "audit: ok") {
		o.t.Errorf("audit: %+v", a)
	}
}

// checkProcesses looks for passwords where other users of the machine, or readers of logs, would see them: on the command
// line of every process, and in every file of the instance but the two places that hold secrets.
func (o *ownParts) checkProcesses(p *place) {
	o.t.Helper()
	if pids := p.pids(); len(pids) != 5 {
		o.t.Errorf("processes %v", pids)
	}
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(lines) < 5 {
		o.t.Fatal(lines, err)
	}
	for _, name := range lines {
		b, _ := os.ReadFile(name) // it may have ended
		o.noSecret(name, strings.ReplaceAll(string(b), "\x00", " "))
	}
	err = filepath.WalkDir(p.dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || d.IsDir():
			return err
		case filepath.Base(path) == "instance.json", filepath.Base(filepath.Dir(path)) == "secrets":
			info, err := d.Info()
			if err == nil && info.Mode().Perm() != 0o600 {
				o.t.Errorf("%s has mode %v", path, info.Mode())
			}
			return err
		}
		b, err := os.ReadFile(path)
		o.noSecret(path, string(b))
		return err
	})
	if err != nil {
		o.t.Error(err)
	}
}

// checkAlone wants every part to run, with what was put into it.
func (o *ownParts) checkAlone() {
	o.t.Helper()
	if tables := postgresTables(o.t, o.postgres); !strings.Contains(tables, "reservations") {
		o.t.Errorf("Postgres after down: %q", tables)
	}
	if got := o.askRedis("DBSIZE"); !strings.HasPrefix(got, ":") || got == ":0" {
		o.t.Errorf("Redis after down: %s", got)
	}
	if rows, err := testkit.QueryClickHouse(o.t.Context(), o.clickhouse, "SELECT count() FROM agent_cost_ledger"); err != nil || strings.TrimSpace(rows) == "0" {
		o.t.Errorf("ClickHouse after down: %q, %v", rows, err)
	}
	if a := weir(o.t, "", "init", "--kafka", o.kafka); a.code != 0 { // it checks what it finds there
		o.t.Errorf("Kafka after down: %+v", a)
	}
}
