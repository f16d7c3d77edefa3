// Package config reads a service's configuration from flags with the environment as fallback.
//
// The environment variable of a flag is derived: -max-batch of the service "cost-attributor" is
// COST_ATTRIBUTOR_MAX_BATCH. The flag wins. Secrets come from files (-x-file) or the environment, never from a flag, and
// are printed as stars, as are passwords inside addresses. All errors are reported together. There is no configuration
// file and no reloading. Values are fixed once Load has returned true.
package config

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

const stars = "***"

// Set is the configuration of one service.
type Set struct {
	service string
	lookup  func(string) (string, bool)
	fs      *flag.FlagSet
	show    map[string]func(string) string // how a flag's value is printed, where not as it is
	secrets []*Secret
	checks  []func() error
	source  map[string]string // flag → "flag" or "env"
}

// New makes a set. lookup is os.LookupEnv in a main and a map in tests.
func New(service string, lookup func(string) (string, bool)) *Set {
	fs := flag.NewFlagSet(service, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	return &Set{service: service, lookup: lookup, fs: fs, show: map[string]func(string) string{}, source: map[string]string{}}
}

// Env is the environment variable that stands in for a flag.
func (s *Set) Env(flagName string) string {
	return strings.ToUpper(strings.ReplaceAll(s.service+"_"+flagName, "-", "_"))
}

// String defines a flag of any text.
func (s *Set) String(name, def, usage string) *string { return s.fs.String(name, def, usage) }

// Int defines a flag of a whole number.
func (s *Set) Int(name string, def int, usage string) *int { return s.fs.Int(name, def, usage) }

// Bool defines a switch.
func (s *Set) Bool(name string, def bool, usage string) *bool { return s.fs.Bool(name, def, usage) }

// Duration defines a flag of a Go duration such as 1m30s.
func (s *Set) Duration(name string, def time.Duration, usage string) *time.Duration {
	return s.fs.Duration(name, def, usage)
}

// Address defines a flag of a URL whose password, if it has one, is printed as stars.
func (s *Set) Address(name, def, usage string) *string {
	s.show[name] = MaskURL
	return s.fs.String(name, def, usage)
}

// Secret defines -name-file, and the environment variable of name for the value itself; both at once is an error.
func (s *Set) Secret(name, usage string) *Secret {
	v := &Secret{name: name}
	s.fs.StringVar(&v.file, name+"-file", "", usage+" (a file; the value itself may be in "+s.Env(name)+")")
	s.secrets = append(s.secrets, v)
	return v
}

// Check adds a validation that runs after all values are read; its error is joined with the others.
func (s *Set) Check(check func() error) { s.checks = append(s.checks, check) }

// Require makes empty values of these text flags an error.
func (s *Set) Require(names ...string) {
	for _, name := range names {
		s.Check(func() error {
			if f := s.fs.Lookup(name); f == nil || f.Value.String() == "" {
				return fmt.Errorf("-%s (or %s) is required", name, s.Env(name))
			}
			return nil
		})
	}
}

// Load is all that a main does: read, check, and handle -help and -check-config. run false means that the process is to
// exit with code: 0 after -help or a good -check-config, 2 when something is wrong.
func (s *Set) Load(args []string, out, errOut io.Writer) (code int, run bool) {
	checkOnly := s.fs.Bool("check-config", false, "print the effective configuration and exit (0 good, 2 not)")
	err := s.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		s.PrintHelp(out)
		return 0, false
	case err != nil:
		fmt.Fprintf(errOut, "%s: bad configuration:\n%v\nTry -help.\n", s.service, err)
		return 2, false
	case *checkOnly:
		s.Print(out)
		return 0, false
	}
	return 0, true
}

// Parse reads arguments and environment and returns everything that is wrong, joined; flag.ErrHelp for -help.
func (s *Set) Parse(args []string) error {
	if err := s.fs.Parse(args); err != nil {
		return err
	}
	var errs []error
	if s.fs.NArg() > 0 {
		errs = append(errs, fmt.Errorf("unexpected argument %q", s.fs.Arg(0)))
	}
	s.fs.Visit(func(f *flag.Flag) { s.source[f.Name] = "flag" })
	s.fs.VisitAll(func(f *flag.Flag) {
		value, ok := s.lookup(s.Env(f.Name))
		if !ok || s.source[f.Name] != "" {
			return
		}
		s.source[f.Name] = "env"
		if err := s.fs.Set(f.Name, value); err != nil {
			// Not the value: it may be a password in an address.
			errs = append(errs, fmt.Errorf("%s: not a value for -%s", s.Env(f.Name), f.Name))
		}
	})
	for _, v := range s.secrets {
		value, ok := s.lookup(s.Env(v.name))
		errs = append(errs, v.load(value, ok, s.Env(v.name)))
	}
	for _, check := range s.checks {
		errs = append(errs, check())
	}
	return errors.Join(errs...)
}

// Print writes one line per flag, sorted: name, effective value (secrets as stars) and where it came from.
func (s *Set) Print(out io.Writer) {
	s.fs.VisitAll(func(f *flag.Flag) {
		if f.Name == "check-config" {
			return
		}
		value, source := f.Value.String(), s.source[f.Name]
		if show := s.show[f.Name]; show != nil {
			value = show(value)
		}
		if source == "" {
			source = "default"
		}
		fmt.Fprintf(out, "%s = %s (%s)\n", f.Name, value, source)
	})
	for _, v := range s.secrets {
		fmt.Fprintf(out, "%s = %s\n", v.name, v)
	}
}

// PrintHelp writes the usage with the flags sorted by name; the text is stable, so it can be a golden file.
func (s *Set) PrintHelp(out io.Writer) {
	fmt.Fprintf(out, "Usage: %s [flags]\n\nEvery flag can be given by the environment variable beside it; the flag wins.\n", s.service)
	s.fs.VisitAll(func(f *flag.Flag) {
		def := f.DefValue
		if show := s.show[f.Name]; show != nil {
			def = show(def)
		}
		if def != "" {
			def = ", default " + def
		}
		fmt.Fprintf(out, "\n  -%s (%s%s)\n      %s\n", f.Name, s.Env(f.Name), def, f.Usage)
	})
}

// Secret is a value that cannot be printed by accident.
type Secret struct{ name, file, value string }

// Value is the secret itself, "" where none was given.
func (v *Secret) Value() string { return v.value }

// String is stars, or "" where none was given.
func (v *Secret) String() string {
	if v.value == "" {
		return ""
	}
	return stars
}

// GoString keeps the value out of %#v.
func (v *Secret) GoString() string { return v.String() }

// MarshalText keeps the value out of JSON and structured logs.
func (v *Secret) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

func (v *Secret) load(env string, inEnv bool, envName string) error {
	if v.file == "" {
		v.value = env
		return nil
	}
	if inEnv {
		return fmt.Errorf("both -%s-file and %s are given", v.name, envName)
	}
	b, err := os.ReadFile(v.file)
	if err != nil {
		return fmt.Errorf("-%s-file: %w", v.name, err)
	}
	if v.value = strings.TrimSpace(string(b)); v.value == "" {
		return fmt.Errorf("-%s-file: %s is empty", v.name, v.file)
	}
	return nil
}

// MaskURL replaces the password of a URL (also in lists of hosts, which net/url refuses) and the values of query
// parameters that look like secrets by stars; and all of what is no URL but may have a password, as Postgres' "host=h
// password=p", whose quotes are not for here to read.
func MaskURL(s string) string {
	scheme, rest, ok := strings.Cut(s, "://")
	switch {
	case !ok && strings.Contains(strings.ToLower(s), "password"):
		return stars
	case !ok:
		return s
	}
	rest, query, hasQuery := strings.Cut(rest, "?")
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		if user, _, ok := strings.Cut(rest[:at], ":"); ok {
			rest = user + ":" + stars + rest[at:]
		}
	}
	if hasQuery {
		pairs := strings.Split(query, "&")
		for i, pair := range pairs {
			name, _, _ := strings.Cut(pair, "=")
			if isSecret(strings.ToLower(name)) {
				pairs[i] = name + "=" + stars
			}
		}
		rest += "?" + strings.Join(pairs, "&")
	}
	return scheme + "://" + rest
}

// isSecret knows the query parameters that clients take a secret by (password, sslpassword, sentinel_password, …), and
// those that only name its file.
func isSecret(name string) bool {
	return name == "secret" || name == "token" || strings.Contains(name, "password") && !strings.HasSuffix(name, "_file")
}
