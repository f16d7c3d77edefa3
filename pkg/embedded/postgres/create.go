package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// capDacReadSearch lets a process read and search folders whose modes bar it (capabilities(7)).
const capDacReadSearch = 2

// account is whom the server runs as; the zero value is the caller.
type account struct {
	credential *syscall.Credential
	ambient    []uintptr
}

// serverAccount picks an unprivileged user when the caller is root: postgres where there is one, else nobody. Only if
// a folder above the data bars that user (below /root, in a 0700 temporary folder) does it get the capability to pass.
func serverAccount(dir string) (account, error) {
	if os.Geteuid() != 0 {
		return account{}, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		if u, err = user.Lookup("nobody"); err != nil {
			return account{}, fmt.Errorf("postgres must not run as root, and there is neither a user postgres nor nobody: %w", err)
		}
	}
	uid, errUID := strconv.ParseUint(u.Uid, 10, 32)
	gid, errGID := strconv.ParseUint(u.Gid, 10, 32)
	if err := errors.Join(errUID, errGID); err != nil {
		return account{}, fmt.Errorf("user %s: %w", u.Username, err)
	}
	a := account{credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	if barred(dir) {
		a.ambient = []uintptr{capDacReadSearch}
	}
	return a, nil
}

// barred reports whether dir or a folder above it cannot be searched by others.
func barred(dir string) bool {
	for {
		info, err := os.Stat(dir)
		if err != nil || info.Mode().Perm()&0o001 == 0 {
			return true
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return false
		}
		dir = parent
	}
}

// create runs initdb, which keeps the lock, in a folder of another name and renames it when it is whole.
func (c Config) create(ctx context.Context, acc account, password string, lock *os.File) error {
	if _, err := os.Stat(filepath.Join(c.data(), "PG_VERSION")); err == nil {
		return nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("postgres data: %w", err)
	}
	fresh := c.data() + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return fmt.Errorf("postgres data: %w", err)
	}
	if err := os.Mkdir(fresh, 0o700); err != nil {
		return fmt.Errorf("postgres data: %w", err)
	}
	// The server's user may not read our password file, so it gets one of its own for this moment.
	secret := fresh + ".password"
	if err := os.WriteFile(secret, []byte(password+"\n"), 0o600); err != nil {
		return fmt.Errorf("postgres password: %w", err)
	}
	defer os.Remove(secret)
	if acc.credential != nil {
		uid, gid := int(acc.credential.Uid), int(acc.credential.Gid)
		if err := errors.Join(os.Chown(fresh, uid, gid), os.Chown(secret, uid, gid)); err != nil {
			return fmt.Errorf("postgres data: %w", err)
		}
	}
	args := []string{
		"-D", fresh, "-U", User, "--auth=scram-sha-256", "--pwfile=" + secret,
		"--encoding=UTF8", "--locale=C", "--data-checksums",
	}
	if c.NoSync {
		args = append(args, "--no-sync")
	}
	cmd := exec.CommandContext(ctx, filepath.Join(c.BinDir, "initdb"), args...)
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = &out, &out, []*os.File{lock}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: acc.credential, AmbientCaps: acc.ambient}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, strings.TrimSpace(out.String()))
	}
	if err := os.Rename(fresh, c.data()); err != nil {
		return fmt.Errorf("postgres data: %w", err)
	}
	return nil
}
