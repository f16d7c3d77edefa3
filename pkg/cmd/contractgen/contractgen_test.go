package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/gen/topics"
)

var update = flag.Bool("update", false, "rewrite testdata/golden")

// TestGolden generates everything from a small repository and compares it, byte for byte, with testdata/golden.
func TestGolden(t *testing.T) {
	t.Parallel()
	out, err := generate(t.Context(), "testdata/repo", options{})
	if err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "golden")
	if *update {
		if err := os.RemoveAll(golden); err != nil {
			t.Fatal(err)
		}
		if _, err := renamed(out).write(golden); err != nil {
			t.Fatal(err)
		}
	}
	stale, err := renamed(out).stale(golden)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range stale {
		t.Errorf("%s: run `go test ./cmd/contractgen -update` and read the diff", name)
	}
}

// renamed gives Go files a .golden ending: the go tool must not take testdata for packages, nor linters for code.
func renamed(out *output) *output {
	golden := newOutput()
	golden.own(".")
	for name, content := range out.files {
		if strings.HasSuffix(name, ".go") {
			name += ".golden"
		}
		golden.files[name] = content
	}
	return golden
}

// TestWriteThenCheck writes into an empty copy, sees that a second run changes nothing, and that an edit, a missing
// file and a stray are each named.
func TestWriteThenCheck(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := os.CopyFS(root, os.DirFS("testdata/repo")); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	args := []string{"-root", root, "-no-proto", "-no-deps"}
	if code := run(t.Context(), args, &said, &said); code != 0 {
		t.Fatalf("first run: exit %d\n%s", code, said.String())
	}
	check := append([]string{"-check"}, args...)
	if code := run(t.Context(), check, &said, &said); code != 0 {
		t.Fatalf("check after a write: exit %d\n%s", code, said.String())
	}
	edit(t, filepath.Join(root, "pkg/gen/topics/topics.go"), "// edited\n")
	edit(t, filepath.Join(root, "pkg/gen/topics/stray.go"), "package topics\n")
	if err := os.Remove(filepath.Join(root, "deploy/kafka/acls.yaml")); err != nil {
		t.Fatal(err)
	}
	said.Reset()
	if code := run(t.Context(), check, &said, &said); code != 1 {
		t.Fatalf("check of an edited tree: exit %d", code)
	}
	for _, want := range []string{"run `make gen`", "topics/topics.go (differs at line 1)", "stray.go (not generated any more)", "acls.yaml (missing)"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("message lacks %q:\n%s", want, said.String())
		}
	}
	if code := run(t.Context(), args, &said, &said); code != 0 {
		t.Fatal(said.String())
	}
	if code := run(t.Context(), check, &said, &said); code != 0 {
		t.Fatalf("a run does not repair: %s", said.String())
	}
}

func edit(t *testing.T, file, content string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestBadTopics changes one line of a good file each time; the message must name the file and the fault.
func TestBadTopics(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, file, old, new, want string }{
		{"unknown field", "usage.events.v1", "key: tenant", "key: tenant\ncolour: red", "line 6: field colour not found"},
		{"wrong name", "usage.events.v1", "name: usage.events.v1", "name: usage.event.v1", "must be the file's name"},
		{"no version", "usage.events.v1", "name: usage.events.v1", "name: usage.events", "words and a version"},
		{"no key", "usage.events.v1", "key: tenant\n", "", "key is missing"},
		{"no owner", "usage.events.v1", "owner: any producer\n", "", "owner is missing"},
		{"unknown writer", "usage.events.v1", "[outbox-relay,", "[outboxrelay,", `writer "outboxrelay" is no service`},
		{"no partitions", "usage.events.v1", "partitions: 2", "partitions: 0", "partitions 0 must be"},
		{"no retention", "usage.events.v1", "retention: 35d\n", "", "retention: \"\" is no span"},
		{"bad retention", "usage.events.v1", "retention: 35d", "retention: 5 weeks", "is no span"},
		{"bad cleanup", "usage.events.v1", "cleanup: delete", "cleanup: never", `cleanup "never"`},
		{"lag of a deleted topic", "usage.events.v1", "cleanup: delete", "cleanup: delete\nmin_compaction_lag: 1h", "needs cleanup: compact"},
		{"no lag", "executions.revoked.v1", "min_compaction_lag: 1h\n", "", "must be at least 1h"},
		{"no bound", "usage.events.v1", "max_record_bytes: 1048576\n", "", "max_record_bytes 0 must be"},
		{"unknown schema", "executions.revoked.v1", "weir.v1.Revocation", "weir.v1.Revoked", "is no message"},
		{"no document", "usage.events.v1", "docs/usage-event.md", "docs/nothing.md", "no such document"},
		{"nobody reads", "usage.deadletter.v1", "\n  - {service: weir, group: none, replay: weir dlq replay, dead_letter: none}", " []", "consumers is empty"},
		{"unknown reader", "usage.events.v1", "{service: cost-attributor,", "{service: attributor,", `consumer "attributor" is no service`},
		{"foreign group", "usage.events.v1", "group: weir.cost-attributor", "group: cost-attributor", "must start with weir."},
		{"no replay", "usage.events.v1", "replay: idempotent by id", `replay: ""`, "replay must say why"},
		{"unknown dead letter", "usage.events.v1", "dead_letter: usage.deadletter.v1", "dead_letter: usage.dead.v1", "neither a topic nor none"},
		{"small dead letter", "usage.deadletter.v1", "max_record_bytes: 2097152", "max_record_bytes: 1048576", "it must take more than the source's"},
		{"foreign dead letter", "usage.deadletter.v1", "writers: [cost-attributor]", "writers: [breaker]", "does not name cost-attributor as a writer"},
		{"shared group", "executions.revoked.v1", "group: none (every replica reads all)", "group: weir.cost-attributor", "needs its own"},
		{"two documents", "usage.events.v1", "name:", "---\n---\nname:", "one document per file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			if err := os.CopyFS(root, os.DirFS("testdata/repo")); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(root, "topics", c.file+".yaml")
			good, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(good), c.old) {
				t.Fatalf("%q is not in %s", c.old, file)
			}
			edit(t, file, strings.Replace(string(good), c.old, c.new, 1))
			_, err = generate(t.Context(), root, options{})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("want an error with %q, got: %v", c.want, err)
			}
		})
	}
}

// TestJournal holds the two rules that no single file can break alone.
func TestJournal(t *testing.T) {
	t.Parallel()
	journal := topicFile{Name: "ledger.entries.v1", file: "topics/ledger.entries.v1.yaml", Partitions: 4, Cleanup: "delete", Retention: "35d"}
	input := topicFile{Name: "usage.events.v1", file: "topics/usage.events.v1.yaml", Partitions: 2}
	var all []string
	for _, problem := range (contractSet{topics: []topicFile{journal, input}}).validateTogether() {
		all = append(all, problem.Error())
	}
	text := strings.Join(all, "\n")
	for _, want := range []string{"must be equal", "retention: forever"} {
		if !strings.Contains(text, want) {
			t.Errorf("no problem mentions %q:\n%s", want, text)
		}
	}
}

// TestMarkers fills blocks and refuses a marker that nobody closes or knows.
func TestMarkers(t *testing.T) {
	t.Parallel()
	blocks := map[string]string{"flow": "new"}
	for _, c := range []struct{ name, text, want, wrong string }{
		{name: "no marker", text: "plain", want: "plain"},
		{name: "filled", text: "a\n<!-- gen:flow -->\nold\n<!-- /gen:flow -->\nb", want: "a\n<!-- gen:flow -->\nnew\n<!-- /gen:flow -->\nb"},
		{name: "open", text: "<!-- gen:flow -->\nold", wrong: "has no <!-- /gen:flow -->"},
		{name: "unknown", text: "<!-- gen:foo -->\n<!-- /gen:foo -->", wrong: "is unknown"},
	} {
		got, err := fillMarkers(c.text, blocks)
		switch {
		case c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)):
			t.Errorf("%s: want error with %q, got %v", c.name, c.wrong, err)
		case c.wrong == "" && (err != nil || got != c.want):
			t.Errorf("%s: got %q, %v", c.name, got, err)
		}
	}
}

// TestADRs wants numbers without a gap and a complete header.
func TestADRs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, file, text, want string }{
		{"gap", "0003-late.md", "# Late\n\n| Date | 2026-11-30 |\n| Status | Accepted |\n| Tags | x |\n", "the next number is 0002"},
		{"status", "0002-odd.md", "# Odd\n\n| Date | 2026-11-30 |\n| Status | Maybe |\n| Tags | x |\n", "no line that matches"},
	} {
		root := t.TempDir()
		if err := os.CopyFS(root, os.DirFS("testdata/repo")); err != nil {
			t.Fatal(err)
		}
		edit(t, filepath.Join(root, "docs/adr", c.file), c.text)
		if _, err := generate(t.Context(), root, options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: want an error with %q, got %v", c.name, c.want, err)
		}
	}
}

// TestManifestIsWhatIsChecked: topics that are made by deploy/kafka/topics.yaml are those that `weir up` accepts, which
// checks them by bus.TopicConfigs.
func TestManifestIsWhatIsChecked(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../../deploy/kafka/topics.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct {
		Topics []struct {
			Name   string
			Config map[string]string
		}
	}
	if err := yaml.Unmarshal(raw, &manifest); err != nil {
		t.Fatal(err)
	}
	if len(manifest.Topics) != len(topics.All) {
		t.Fatalf("%d topics, declared are %d", len(manifest.Topics), len(topics.All))
	}
	for i, declared := range topics.All {
		have := manifest.Topics[i]
		for name, want := range bus.TopicConfigs(declared) {
			if have.Name != declared.Name() || have.Config[name] != want {
				t.Errorf("%s: %s is %q, want %q", have.Name, name, have.Config[name], want)
			}
		}
	}
}
