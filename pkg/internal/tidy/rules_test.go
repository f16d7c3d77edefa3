package tidy

import (
	"strings"
	"testing"
)

// snippet parses src as if it stood at name.
func snippet(t *testing.T, name, src string) goFile {
	t.Helper()
	f, err := parse(name, src)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestRules gives each rule a bad snippet, which it must name, and a good neighbour, about which it must be silent.
// The forbidden words are put together here, so that this file does not break the rules itself.
func TestRules(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("\n", 401)
	for _, c := range []struct {
		name, file, src, want string
		check                 func(goFile) []finding
	}{
		{"long file", "pkg/x/a.go", "package x" + long, "has 401 lines, at most 400", checkFileLength},
		{"long generated file", "pkg/gen/x/a.go", "package x" + long, "", checkFileLength},
		{"long main", "services/breaker/cmd/breaker/main.go", "package main" + strings.Repeat("\n", 81), "at most 80", checkFileLength},
		{"long function", "pkg/x/a.go", "package x\nfunc f() {" + strings.Repeat("\n", 70) + "}", "f has 71 lines, at most 70", checkFunctionLength},
		{"long test", "pkg/x/a_test.go", "package x\nfunc f() {" + strings.Repeat("\n", 70) + "}", "", checkFunctionLength},

		{"clock in a service", "services/breaker/a.go", "package x\nimport \"time\"\nvar _ = time.Now()", "time.Now: time enters at the edge", checkCalls},
		{"renamed clock", "services/breaker/a.go", "package x\nimport clock \"time\"\nvar _ = clock.Now()", "clock.Now: time enters", checkCalls},
		{"clock as a value", "services/breaker/a.go", "package x\nimport \"time\"\nvar now = time.Now", "time.Now", checkCalls},
		{"hidden clock", "pkg/bus/a.go", "package x\nimport \"time\"\nfunc f(t time.Time) { _ = time.Since(t) }", "time.Since", checkCalls},
		{"clock in main", "services/breaker/cmd/breaker/main.go", "package main\nimport \"time\"\nvar now = time.Now", "", checkCalls},
		{"another Now", "services/breaker/a.go", "package x\nimport \"x.io/clock\"\nvar _ = clock.Now()", "", checkCalls},
		{"sleep in a test", "pkg/x/a_test.go", "package x\nimport \"time\"\nfunc f() { time.Sleep(1) }", "time.Sleep: wait for a signal", checkCalls},
		{"environment", "services/breaker/a.go", "package x\nimport \"os\"\nvar _ = os.Getenv(\"X\")", "os.Getenv: configuration is read once", checkCalls},
		{"environment in config", "pkg/config/a.go", "package x\nimport \"os\"\nvar _ = os.Getenv(\"X\")", "", checkCalls},
		{"print", "services/breaker/a.go", "package x\nimport \"fmt\"\nfunc f() { fmt.Println() }", "fmt.Println: services log", checkCalls},
		{"print to a writer", "services/breaker/a.go", "package x\nimport \"fmt\"\nfunc f() { fmt.Fprintln(nil) }", "", checkCalls},
		{"global logger", "pkg/x/a.go", "package x\nimport \"log/slog\"\nfunc f() { slog.Info(\"\") }", "slog.Info: use the injected", checkCalls},
		{"old logger", "pkg/x/a.go", "package x\nimport \"log\"\nfunc f() { log.Print() }", "log.Print: use the injected", checkCalls},
		{"decimal of a float", "pkg/x/a.go", "package x\nvar _ = decimal.NewFrom" + "Float(1)", "a float is already rounded", checkCalls},
		{"float of a decimal", "pkg/x/a_test.go", "package x\nvar _ = d.Inexact" + "Float64()", "a float would round money", checkCalls},
		{"skipped test", "pkg/x/a_test.go", "package x\nfunc f(t T) { t.Skip(\"no server\") }", "t.Skip: a test that cannot run fails", checkCalls},
		{"skipped record", "pkg/x/a.go", "package x\nfunc f(r R) { r.Skip() }", "", checkCalls},

		{"float", "pkg/domain/pricing/a.go", "package x\nfunc f(rate float64) {}", "float64 near money", checkFloats},
		{"float elsewhere", "pkg/obs/a.go", "package x\nfunc f(rate float64) {}", "", checkFloats},
		{"unfinished", "pkg/x/a.go", "package x\n// TO" + "DO: later", ":2: TO" + "DO: finish it", checkUnfinished},
		{"init", "pkg/x/a.go", "package x\nfunc init() {}", "init(): do it in a constructor", checkInit},
		{"method init", "pkg/x/a.go", "package x\nfunc (t T) init() {}", "", checkInit},
		{"panic", "pkg/x/a.go", "package x\nfunc Parse() { panic(1) }", "panic in Parse", checkPanics},
		{"must", "pkg/x/a.go", "package x\nfunc MustParse() { panic(1) }", "", checkPanics},
		{"package name", "pkg/util/a.go", "package util", "package util: name it after", checkPackageName},

		{"kafka client", "services/breaker/a.go", "package x\nimport _ \"github.com/twmb/franz-go/pkg/kgo\"", "belongs to pkg/bus", checkImports},
		{"kafka client in bus", "pkg/bus/a.go", "package x\nimport _ \"github.com/twmb/franz-go/pkg/kgo\"", "", checkImports},
		{"kafka client in a test", "services/breaker/a_test.go", "package x\nimport _ \"github.com/twmb/franz-go/pkg/kgo\"", "", checkImports},
		{"kfake in bus", "pkg/bus/a.go", "package x\nimport _ \"github.com/twmb/franz-go/pkg/kfake\"", "knows of kfake", checkImports},
		{"postgres", "services/admission/a.go", "package x\nimport _ \"github.com/jackc/pgx/v5/pgxpool\"", "Postgres belongs to", checkImports},
		{"redis", "pkg/audit/a.go", "package x\nimport _ \"github.com/redis/go-redis/v9\"", "Redis belongs to", checkImports},
		{"clickhouse", "services/cost-attributor/a.go", "package x\nimport _ \"github.com/ClickHouse/clickhouse-go/v2\"", "ClickHouse belongs to", checkImports},
		{"decimals", "pkg/domain/pricing/a.go", "package x\nimport _ \"github.com/shopspring/decimal\"", "one package owns decimals", checkImports},
		{"other service", "services/breaker/a.go", "package x\nimport _ \"" + module + "services/admission\"", "services speak over topics only", checkImports},
		{"own service", "services/breaker/cmd/breaker/main.go", "package main\nimport _ \"" + module + "services/breaker\"", "", checkImports},
		{"load test", "services/breaker/a_test.go", "package x\nimport _ \"" + module + "loadtest/workload\"", "nobody imports the load tests", checkImports},
		{"test kit", "services/breaker/a.go", "package x\nimport _ \"" + module + "pkg/testkit\"", "test kits are for tests", checkImports},
		{"auditor", "pkg/audit/a.go", "package x\nimport _ \"" + module + "pkg/domain/pricing\"", "must not check pricing with pricing", checkImports},
		{"bus and domain", "pkg/bus/a.go", "package x\nimport _ \"" + module + "pkg/domain/money\"", "the loop carries bytes", checkImports},

		{"impure", "pkg/domain/window/a.go", "package x\nimport _ \"context\"", "the domain is pure", checkDomainOrder},
		{"impure test", "pkg/domain/window/a_test.go", "package x\nimport _ \"context\"", "", checkDomainOrder},
		{"upwards", "pkg/domain/money/a.go", "package x\nimport _ \"" + module + "pkg/domain/usage\"", "money imports usage: the order is", checkDomainOrder},
		{"downwards", "pkg/domain/usage/a.go", "package x\nimport _ \"" + module + "pkg/domain/money\"", "", checkDomainOrder},
		{"third party", "pkg/domain/usage/a.go", "package x\nimport _ \"golang.org/x/text/language\"", "standard library and money only", checkDomainOrder},
		{"no rank", "pkg/domain/mystery/a.go", "package x", "has no rank", checkDomainOrder},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			expect(t, c.check(snippet(t, c.file, c.src)), c.want)
		})
	}
}

// expect wants one finding whose text holds want, or none for "".
func expect(t *testing.T, found []finding, want string) {
	t.Helper()
	switch {
	case want == "" && len(found) > 0:
		t.Errorf("found %v, want nothing", found)
	case want != "" && len(found) == 0:
		t.Errorf("found nothing, want %q", want)
	case want != "" && !strings.Contains(found[0].String(), want):
		t.Errorf("found %q, want %q", found[0], want)
	}
}

// TestVars tells constants in all but name from state.
func TestVars(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, src, want string }{
		{"error", "var ErrGone = errors.New(\"gone\")", ""},
		{"table", "var names = []string{\"a\"}\nfunc f() string { return names[0] }", ""},
		{"check of an interface", "var _ io.Reader = T{}", ""},
		{"embedded", "//go:embed x.sql\nvar SQL string", ""},
		{"exported", "var Limit = 5", "exported variable Limit"},
		{"assigned", "var limit = 5\nfunc f() { limit = 6 }", "limit is written to"},
		{"element", "var seen = map[string]int{}\nfunc f() { seen[\"x\"]++ }", "seen is written to"},
		{"deleted", "var seen = map[string]int{}\nfunc f() { delete(seen, \"x\") }", "seen is written to"},
		{"address", "var state = T{}\nfunc f() *T { return &state }", "state is written to"},
		{"no value", "var mu sync.Mutex", "can only be state"},
		{"group", "var (\n\ta = 1\n\tb int\n)", "b has no value"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			expect(t, checkVars([]goFile{snippet(t, "pkg/x/a.go", "package x\n"+c.src)}), c.want)
		})
	}
}

// TestDocs wants comments: all in the strict folders, nine of ten elsewhere in pkg, and one on every package.
func TestDocs(t *testing.T) {
	t.Parallel()
	const head = "// Package x owns x.\npackage x\n"
	for _, c := range []struct{ name, file, src, want string }{
		{"strict", "pkg/domain/x/a.go", head + "func F() {}", "F is exported without a comment"},
		{"documented", "pkg/domain/x/a.go", head + "// F does it.\nfunc F() {}", ""},
		{"method", "pkg/bus/a.go", head + "// T is.\ntype T int\nfunc (t *T) M() {}", "M is exported"},
		{"method of a private type", "pkg/bus/a.go", head + "type t int\nfunc (x t) M() {}", ""},
		{"group", "pkg/bus/a.go", head + "// Kinds.\nconst (\n\tA = 1\n\tB = 2\n)", ""},
		{"one in eleven", "pkg/x/a.go", head + "func F() {}" + strings.Repeat("\n// G is.\ntype G int", 10), ""},
		{"one in two", "pkg/x/a.go", head + "func F() {}\n// G is.\ntype G int", "1 of 2 exported identifiers"},
		{"no package comment", "pkg/x/a.go", "package x", "the package has no comment"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			expect(t, checkDocs([]goFile{snippet(t, c.file, c.src)}), c.want)
		})
	}
}

// TestLinks holds a made-up list of linked packages to the bans of its service.
func TestLinks(t *testing.T) {
	t.Parallel()
	const pgx = "github.com/jackc/pgx/v5/pgconn"
	expect(t, checkLinks("breaker", []string{"fmt", pgx}), "services/breaker: links github.com/jackc/pgx/v5: the breaker derives")
	expect(t, checkLinks("admission", []string{"fmt", pgx}), "")
	expect(t, checkLinks("admission", []string{"testing"}), "links testing")
	expect(t, checkLinks("outbox-relay", []string{module + "pkg/embedded/kafka"}), "links "+module+"pkg/embedded")
}

// TestMarkdown finds links that lead nowhere, but not those in code blocks.
func TestMarkdown(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, c := range []struct{ name, text, want string }{
		{"file", "[x](missing.md)", "docs/a.md:1: link missing.md leads nowhere"},
		{"anchor", "# One thing\n[x](#one-thing) [y](#two)", "docs/a.md:2: link #two: no such heading"},
		{"web", "[x](https://example.org/missing)", ""},
		{"code", "```\n[x](missing.md)\n```", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			expect(t, checkMarkdown(root, "docs/a.md", c.text), c.want)
		})
	}
}

// TestTexts covers the rules over any text: lengths of documents, leaks, versions of modules.
func TestTexts(t *testing.T) {
	t.Parallel()
	expect(t, checkDocumentLength("docs/adr/0001-x.md", strings.Repeat("\n", 121)), "121 lines, at most 120")
	expect(t, checkDocumentLength("docs/long.md", strings.Repeat("\n", 999)), "")
	expect(t, checkLeaks("a.txt", "see /work/"+"main for it", nil), "a path of one machine")
	expect(t, checkLeaks("a.txt", "HOME=/root/"+"x", nil), "a path of one machine")
	expect(t, checkLeaks("a.txt", "agents/work/items and ./work/x", nil), "")
	expect(t, checkLeaks("a.txt", "x\nresolved: https://mirror.example/x", []string{"mirror.example"}), "a.txt:2: the host of a local package mirror")
	same := "require (\n\tgithub.com/a/b v1.0.0\n)"
	expect(t, checkVersions(map[string]string{"pkg": same, "services": same}), "")
	other := "require github.com/a/b v1.1.0 // indirect"
	expect(t, checkVersions(map[string]string{"pkg": same, "services": other}), "services/go.mod: github.com/a/b v1.1.0, but pkg has v1.0.0")
}
