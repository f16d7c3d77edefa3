package install

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// aptGet runs apt-get as root, by sudo where the caller is not.
func (i *Installer) aptGet(ctx context.Context, missing string, args ...string) error {
	command := append([]string{"apt-get", "-y", "-qq", "-o", "DPkg::Lock::Timeout=300", "-o", "Dpkg::Use-Pty=0"}, args...)
	env := []string{"DEBIAN_FRONTEND=noninteractive", "NEEDRESTART_SUSPEND=1", "APT_LISTCHANGES_FRONTEND=none"}
	return i.runAsRoot(ctx, missing, slices.Concat([]string{"env"}, env, command)...)
}

// runAsRoot runs a command, by sudo where the caller is not root. missing is what it is to bring.
func (i *Installer) runAsRoot(ctx context.Context, missing string, command ...string) error {
	if os.Geteuid() != 0 {
		sudo, err := asRoot(ctx)
		if err != nil {
			return &UnsupportedError{Missing: missing, Reason: err.Error()}
		}
		command = append(sudo, command...)
	}
	_, err := i.run(ctx, command[0], command[1:]...)
	return err
}

// asRoot is how to become root: sudo without a question, or with one where there is a terminal to ask on.
func asRoot(ctx context.Context) ([]string, error) {
	if _, err := exec.LookPath("sudo"); err != nil {
		return nil, errors.New("apt-get needs root, and there is no sudo")
	}
	if exec.CommandContext(ctx, "sudo", "-n", "true").Run() == nil {
		return []string{"sudo", "-n"}, nil
	}
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil, errors.New("apt-get needs root, and sudo would ask for a password")
	}
	return []string{"sudo"}, tty.Close()
}

// aptInstall brings packages. The package lists are fetched only if what is wanted is not in them or is gone.
func (i *Installer) aptInstall(ctx context.Context, missing string, size int64, packages ...string) error {
	if _, err := exec.LookPath("apt-get"); err != nil {
		return &UnsupportedError{Missing: missing, Reason: "there is no apt-get here"}
	}
	what := "Debian packages " + strings.Join(packages, ", ")
	i.report.Begin(what, size)
	args := append([]string{"install", "--no-install-recommends", "--no-upgrade"}, packages...)
	if err := i.aptGet(ctx, missing, args...); err != nil {
		if updateErr := i.aptGet(ctx, missing, "update"); updateErr != nil {
			return fmt.Errorf("install %s: %w", missing, updateErr)
		}
		if err := i.aptGet(ctx, missing, args...); err != nil {
			return fmt.Errorf("install %s: %w", missing, err)
		}
	}
	i.report.End(what)
	return nil
}

// Redis gives the path of redis-server.
//
// It is brought by the package redis-tools, not redis-server: the latter only adds a service, which would start at
// once and at every boot, and a link by which the program in redis-tools (one program under several names) is called
// as a server. That link is made in the cache instead.
func (i *Installer) Redis(ctx context.Context) (string, error) {
	if path, err := exec.LookPath("redis-server"); err == nil {
		return path, nil
	}
	link := filepath.Join(i.cache, "bin", "redis-server")
	err := i.exclusive(ctx, func() bool { return exists(link) }, func() error {
		const program = "/usr/bin/redis-check-rdb"
		if !exists(program) {
			if err := supported("redis-server"); err != nil {
				return err
			}
			if err := i.aptInstall(ctx, "redis-server", 1<<20, "redis-tools"); err != nil {
				return err
			}
		}
		if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
			return fmt.Errorf("cache folder: %w", err)
		}
		_ = os.Remove(link) // dangling: the package was removed
		if err := os.Symlink(program, link); err != nil {
			return fmt.Errorf("cache folder: %w", err)
		}
		out, err := i.run(ctx, link, "--version")
		if err != nil || !strings.HasPrefix(out, "Redis server v=") {
			_ = os.Remove(link)
			return fmt.Errorf("%s is no Redis server: %q: %w", program, lastLines(out, 1), errOr(err))
		}
		return nil
	})
	return link, err
}

func errOr(err error) error {
	if err != nil {
		return err
	}
	return os.ErrInvalid
}

// postgresMajor is the oldest Postgres that Weir's SQL runs on.
const postgresMajor = 15

// Postgres gives the folder with postgres and initdb, of the given major version if that is not 0 (existing data),
// else of the newest on this machine.
func (i *Installer) Postgres(ctx context.Context, major int) (string, error) {
	if dir := findPostgres(major); dir != "" {
		return dir, nil
	}
	if major != 0 {
		return "", &UnsupportedError{Missing: fmt.Sprintf("PostgreSQL %d, which made the data that is here,", major), Reason: "another version cannot read them"}
	}
	err := i.exclusive(ctx, func() bool { return findPostgres(0) != "" }, func() error {
		if err := supported("postgres"); err != nil {
			return err
		}
		return i.aptPostgres(ctx)
	})
	if err != nil {
		return "", err
	}
	dir := findPostgres(0)
	if dir == "" {
		return "", &UnsupportedError{Missing: "postgres", Reason: fmt.Sprintf("this system's package is older than version %d", postgresMajor)}
	}
	return dir, nil
}

// findPostgres prefers /usr/lib/postgresql, as what is on PATH may be a wrapper that runs something else.
func findPostgres(major int) string {
	best, bestDir := 0, ""
	dirs, _ := filepath.Glob("/usr/lib/postgresql/*/bin") // the pattern is well formed
	for _, dir := range dirs {
		n, err := strconv.Atoi(filepath.Base(filepath.Dir(dir)))
		if err != nil || !exists(filepath.Join(dir, "postgres")) || !exists(filepath.Join(dir, "initdb")) {
			continue
		}
		if n >= postgresMajor && n > best && (major == 0 || n == major) {
			best, bestDir = n, dir
		}
	}
	if bestDir != "" {
		return bestDir
	}
	path, err := exec.LookPath("postgres")
	if err != nil {
		return ""
	}
	if path, err = filepath.EvalSymlinks(path); err != nil || !exists(filepath.Join(filepath.Dir(path), "initdb")) {
		return ""
	}
	out, err := exec.Command(path, "--version").Output()
	m := regexp.MustCompile(`(\d+)`).FindString(string(out))
	n, _ := strconv.Atoi(m) // no digits: 0, too old
	if err != nil || n < postgresMajor || major != 0 && n != major {
		return ""
	}
	return filepath.Dir(path)
}

// clusterFile keeps postgresql-common from making and starting a cluster `main` when a server package is unpacked. It
// is there only during the installation: the machine's owner may want one later.
const clusterFile = "/etc/postgresql-common/createcluster.d/zz-weir.conf"

func (i *Installer) aptPostgres(ctx context.Context) error {
	if _, err := exec.LookPath("apt-get"); err != nil {
		return &UnsupportedError{Missing: "postgres", Reason: "there is no apt-get here"}
	}
	if err := i.runAsRoot(ctx, "postgres", "sh", "-c", "mkdir -p "+filepath.Dir(clusterFile)+" && echo 'create_main_cluster = false' > "+clusterFile); err != nil {
		return fmt.Errorf("prepare the installation of postgres: %w", err)
	}
	installErr := i.aptInstall(ctx, "postgres", 60<<20, "postgresql")
	// Also when ctx has ended: the file must not stay.
	if err := i.runAsRoot(context.WithoutCancel(ctx), "postgres", "rm", "-f", clusterFile); err != nil && installErr == nil {
		return fmt.Errorf("after the installation of postgres: %w", err)
	}
	return installErr
}

// Java gives the path of java 17 or later.
func (i *Installer) Java(ctx context.Context) (string, error) {
	if path, err := exec.LookPath("java"); err == nil {
		return path, nil
	}
	err := i.exclusive(ctx, func() bool { _, err := exec.LookPath("java"); return err == nil }, func() error {
		if err := supported("java"); err != nil {
			return err
		}
		return i.aptInstall(ctx, "java", 60<<20, "default-jre-headless")
	})
	if err != nil {
		return "", err
	}
	return exec.LookPath("java")
}
