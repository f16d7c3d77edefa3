package budgetstore

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// passwordFile takes ?password_file=F out of a client URL, which go-redis does not know, and puts the password in the
// file, without surrounding white space, in the URL's place for it. Its errors contain no password: url.Error would.
func passwordFile(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", errors.New("redis address: not a URL (special characters of a password are written as %xx)")
	}
	if strings.Contains(u.Host, ",") { // url.Parse takes the commas into the name
		return "", errors.New("redis address: one host, and each further one as ?addr=host:port")
	}
	query := u.Query()
	file := query.Get("password_file")
	if file == "" {
		return address, nil
	}
	if _, twice := u.User.Password(); twice {
		return "", errors.New("redis address: a password and password_file")
	}
	password, err := readPassword("password_file", file)
	if err != nil {
		return "", err
	}
	query.Del("password_file")
	u.User, u.RawQuery = url.UserPassword(u.User.Username(), password), query.Encode()
	return u.String(), nil
}

func readPassword(name, file string) (string, error) {
	password, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("redis address: %s: %w", name, err)
	}
	return strings.TrimSpace(string(password)), nil
}

// bySentinel reads a client URL whose hosts are Sentinels. What stands before the host is Redis' own login, as in every other
// form, where go-redis would take it for the Sentinels'; theirs are parameters. Its errors contain no password.
func bySentinel(address string) (*redis.FailoverOptions, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("not a URL")
	}
	query := u.Query()
	path := strings.Trim(u.Path, "/")
	switch _, err := strconv.Atoi(path); {
	case query.Has("username"), query.Has("password"):
		return nil, errors.New("the Redis login stands before the host (user:password@host), that of the Sentinels in sentinel_username and sentinel_password_file")
	case query.Get("master_name") != "":
	case path != "" && err != nil:
		return nil, fmt.Errorf("the name of the master is a parameter: ?master_name=%s, after the host or the number of the database", path)
	default:
		return nil, errors.New("it names no master: add ?master_name=NAME, the NAME of `sentinel monitor NAME …`")
	}
	user, password := query.Get("sentinel_username"), query.Get("sentinel_password")
	if file := query.Get("sentinel_password_file"); file != "" {
		if password != "" {
			return nil, errors.New("sentinel_password and sentinel_password_file")
		}
		if password, err = readPassword("sentinel_password_file", file); err != nil {
			return nil, err
		}
	}
	for _, name := range []string{"sentinel_username", "sentinel_password", "sentinel_password_file"} {
		query.Del(name)
	}
	u.RawQuery = query.Encode()
	o, err := redis.ParseFailoverURL(u.String())
	if err != nil {
		return nil, err
	}
	o.Username, o.Password = o.SentinelUsername, o.SentinelPassword
	o.SentinelUsername, o.SentinelPassword = user, password
	return o, nil
}
