package tidy

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestRepository runs every rule over the whole repository. A failure names file, line and what to do instead.
func TestRepository(t *testing.T) {
	t.Parallel()
	root, err := findRoot()
	if err != nil {
		t.Fatal(err)
	}
	files, err := loadGo(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 50 {
		t.Fatalf("found only %d Go files under %s", len(files), root)
	}
	for _, r := range rules() {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			for _, f := range files {
				report(t, r.check(f))
			}
		})
	}
	folders := map[string][]goFile{}
	for _, f := range files {
		folders[f.dir()] = append(folders[f.dir()], f)
	}
	t.Run("comments", func(t *testing.T) {
		t.Parallel()
		for _, folder := range folders {
			report(t, checkDocs(folder))
		}
	})
	t.Run("package variables", func(t *testing.T) {
		t.Parallel()
		for _, folder := range folders {
			report(t, checkVars(folder))
		}
	})
	t.Run("bans are alive", func(t *testing.T) {
		t.Parallel()
		checkBansAlive(t, root)
	})
}

// TestDocuments checks links and lengths of every document, and that no file holds paths or hosts of one machine.
func TestDocuments(t *testing.T) {
	t.Parallel()
	root, err := findRoot()
	if err != nil {
		t.Fatal(err)
	}
	hosts := mirrorHosts(t)
	err = walk(root, func(name string) error {
		if strings.Contains(name, "/testdata/") || name == "pkg/internal/tidy/documents.go" || name == "pkg/internal/tidy/rules_test.go" {
			return nil
		}
		raw, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil || len(raw) > 4<<20 || !utf8.Valid(raw) {
			return nil // vanished, or data
		}
		report(t, checkLeaks(name, string(raw), hosts))
		if strings.HasSuffix(name, ".md") {
			report(t, checkMarkdown(root, name, string(raw)))
			report(t, checkDocumentLength(name, string(raw)))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestLinkedPackages asks the go command once what the services link, and holds each binary to its bans.
func TestLinkedPackages(t *testing.T) {
	t.Parallel()
	root, err := findRoot()
	if err != nil {
		t.Fatal(err)
	}
	for service, linked := range linkedPackages(t, root) {
		report(t, checkLinks(service, linked))
	}
}

// TestModuleVersions compares the go.mod files of the three modules.
func TestModuleVersions(t *testing.T) {
	t.Parallel()
	root, err := findRoot()
	if err != nil {
		t.Fatal(err)
	}
	content := map[string]string{}
	for _, folder := range []string{"pkg", "services", "loadtest"} {
		raw, err := os.ReadFile(filepath.Join(root, folder, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		content[folder] = string(raw)
	}
	report(t, checkVersions(content))
}

func report(t *testing.T, found []finding) {
	t.Helper()
	sort.Slice(found, func(i, j int) bool { return found[i].String() < found[j].String() })
	for _, f := range found {
		t.Error(f)
	}
}

// checkBansAlive wants every banned target and every exception to exist still, so that the table does not rot.
func checkBansAlive(t *testing.T, root string) {
	t.Helper()
	modules, err := os.ReadFile(filepath.Join(root, "pkg", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	exists := func(name string) bool {
		if strings.Contains(strings.Split(name, "/")[0], ".") {
			return bytes.Contains(modules, []byte(strings.Split(name, "/pkg/")[0]))
		}
		_, err := os.Stat(filepath.Join(root, filepath.FromSlash(name)))
		return err == nil
	}
	for _, ban := range importBans() {
		for _, name := range append(append([]string{ban.target}, ban.except...), ban.folders...) {
			if !exists(name) {
				t.Errorf("import rule %q names %s, which does not exist: remove or correct it", ban.reason, name)
			}
		}
	}
	for concept := range domainRank() {
		if !exists("pkg/domain/" + concept) {
			t.Errorf("domainRank names %s, which does not exist", concept)
		}
	}
	for _, b := range bans() {
		for _, folder := range b.allowed {
			if !exists(folder) {
				t.Errorf("ban of %s.%s allows %s, which does not exist", b.from, b.name, folder)
			}
		}
	}
}

// linkedPackages is, per service, every import path that its binary links. One run of the go command answers for all.
func linkedPackages(t *testing.T, root string) map[string][]string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-e", "-deps", "-json=ImportPath,Name,Imports", "./services/...")
	cmd.Dir = root
	listed, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	imports, mains := map[string][]string{}, map[string]string{}
	decoder := json.NewDecoder(bytes.NewReader(listed))
	for {
		var pkg struct {
			ImportPath, Name string
			Imports          []string
		}
		if err := decoder.Decode(&pkg); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		imports[pkg.ImportPath] = pkg.Imports
		if service := serviceOf(strings.TrimPrefix(pkg.ImportPath, module)); pkg.Name == "main" && service != "" {
			mains[service] = pkg.ImportPath
		}
	}
	linked := map[string][]string{}
	for service, main := range mains {
		linked[service] = closure(imports, main)
	}
	return linked
}

// closure is everything reachable from start.
func closure(imports map[string][]string, start string) []string {
	seen, queue := map[string]bool{start: true}, []string{start}
	for i := 0; i < len(queue); i++ {
		for _, next := range imports[queue[i]] {
			if !seen[next] {
				seen[next] = true
				queue = append(queue, next)
			}
		}
	}
	return queue
}

// mirrorHosts reads which package mirrors this machine uses, if any, besides the public ones.
func mirrorHosts(t *testing.T) []string {
	t.Helper()
	public := []string{"proxy.golang.org", "sum.golang.org", "pypi.org", "registry.npmjs.org", "repo.maven.apache.org", "127.0.0.1"}
	var hosts []string
	for _, name := range []string{"GOPROXY", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "UV_INDEX_URL", "NPM_CONFIG_REGISTRY", "npm_config_registry", "CARGO_REGISTRIES_DEFAULT_INDEX", "HTTPS_PROXY", "https_proxy"} {
		for _, value := range strings.FieldsFunc(os.Getenv(name), func(r rune) bool { return r == ',' || r == '|' || r == ' ' }) {
			parsed, err := url.Parse(value)
			if err != nil || !strings.Contains(parsed.Hostname(), ".") || contains(public, parsed.Hostname()) {
				continue // one without a dot may be any word
			}
			hosts = append(hosts, parsed.Hostname())
		}
	}
	return hosts
}

func contains(all []string, one string) bool {
	for _, each := range all {
		if each == one {
			return true
		}
	}
	return false
}
