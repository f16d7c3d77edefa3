package clickhouse

import (
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"

	"github.com/weir-project/weir/pkg/embedded/part"
)

// serverConfig is the least that `clickhouse server` needs: HTTP on loopback and two users.
type serverConfig struct {
	XMLName    xml.Name `xml:"clickhouse"`
	Level      string   `xml:"logger>level"`
	Console    bool     `xml:"logger>console"`
	Host       string   `xml:"listen_host"`
	HTTPPort   int      `xml:"http_port"`
	Path       string   `xml:"path"`
	Tmp        string   `xml:"tmp_path"`
	UserFiles  string   `xml:"user_files_path"`
	Timezone   string   `xml:"timezone"`
	Profile    string   `xml:"default_profile"`
	Database   string   `xml:"default_database"`
	UsersFile  string   `xml:"user_directories>users_xml>path"`
	AccessPath string   `xml:"user_directories>local_directory>path"`
}

type usersConfig struct {
	XMLName  xml.Name `xml:"clickhouse"`
	Profiles struct {
		Default  struct{} `xml:"default"`
		Readonly struct {
			Readonly int `xml:"readonly"`
			Seconds  int `xml:"max_execution_time"`
			Memory   int `xml:"max_memory_usage"`
			// Drivers send this setting by themselves; 0 would be no limit.
			Min        int      `xml:"constraints>max_execution_time>min"`
			Max        int      `xml:"constraints>max_execution_time>max"`
			Changeable struct{} `xml:"constraints>max_execution_time>changeable_in_readonly"`
		} `xml:"readonly"`
	} `xml:"profiles"`
	Quotas struct {
		Default struct{} `xml:"default"`
	} `xml:"quotas"`
	Users struct {
		Default serverUser  `xml:"default"`
		Finance *serverUser `xml:"finance,omitempty"`
	} `xml:"users"`
}

type serverUser struct {
	PasswordHash string  `xml:"password_sha256_hex,omitempty"`
	NoPassword   *string `xml:"password,omitempty"`
	Network      string  `xml:"networks>ip"`
	Profile      string  `xml:"profile"`
	Quota        string  `xml:"quota"`
	AccessAdmin  int     `xml:"access_management,omitempty"`
}

func newServerUser(password, profile string) serverUser {
	u := serverUser{Network: "127.0.0.1", Profile: profile, Quota: "default"}
	if password == "" {
		u.NoPassword = new(string)
	} else {
		u.PasswordHash = hex.EncodeToString(secretHash(password))
	}
	return u
}

// serverCommand writes the configuration and gives the command for a clickhouse program.
func (c Config) serverCommand() (part.Command, error) {
	defaultPassword, err := readPassword(c.DefaultPasswordFile)
	if err != nil {
		return part.Command{}, err
	}
	financePassword, err := readPassword(c.FinancePasswordFile)
	if err != nil {
		return part.Command{}, err
	}
	var users usersConfig
	limited := &users.Profiles.Readonly
	limited.Readonly, limited.Seconds, limited.Memory, limited.Min, limited.Max = 1, financeSeconds, financeMemory, 1, maxQuerySeconds
	users.Users.Default = newServerUser(defaultPassword, "default")
	users.Users.Default.AccessAdmin = 1
	if financePassword != "" {
		finance := newServerUser(financePassword, "readonly")
		users.Users.Finance = &finance
	}
	in := func(name string) string { return filepath.Join(c.Dir, name) }
	server := serverConfig{
		Level: "warning", Console: true, Host: "127.0.0.1", HTTPPort: c.Port, Path: in(serverData) + "/", Tmp: in("tmp") + "/",
		UserFiles: in("user_files") + "/", Timezone: "UTC", Profile: "default", Database: "default",
		UsersFile: in("users.xml"), AccessPath: in("access") + "/",
	}
	for name, v := range map[string]any{"config.xml": server, "users.xml": users} {
		b, err := xml.MarshalIndent(v, "", "  ")
		if err != nil {
			return part.Command{}, fmt.Errorf("clickhouse configuration: %w", err)
		}
		if err := os.WriteFile(in(name), append(b, '\n'), 0o600); err != nil {
			return part.Command{}, fmt.Errorf("clickhouse configuration: %w", err)
		}
	}
	return part.Command{
		Kind: part.KindClickHouse, Path: c.Binary, Dir: c.Dir, LogFile: c.LogFile,
		Args: []string{"server", "--config-file=" + in("config.xml")},
		// Without this the server forks a watchdog, and the pid would be that of a wrapper.
		Env: []string{"CLICKHOUSE_WATCHDOG_ENABLE=0", "TZ=UTC"},
	}, nil
}
