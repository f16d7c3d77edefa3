package budgetstore

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
)

// passwordFile takes ?password_file=F out of a client URL, which go-redis does not know, and puts the password in the
// file, without surrounding white space, in the URL's place for it. Its errors contain no password: url.Error would.
func passwordFile(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", errors.New("redis address: not a URL (special characters of a password are written as %xx)")
	}
	query := u.Query()
	file := query.Get("password_file")
	if file == "" {
		return address, nil
	}
	if _, twice := u.User.Password(); twice {
		return "", errors.New("redis address: a password and password_file")
	}
	password, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("redis address: password_file: %w", err)
	}
	query.Del("password_file")
	u.User, u.RawQuery = url.UserPassword(u.User.Username(), strings.TrimSpace(string(password))), query.Encode()
	return u.String(), nil
}
