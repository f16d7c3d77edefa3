package readme

import (
	"strings"
	"testing"
)

func doc(lines ...string) string { return strings.Join(lines, "\n") }

func TestBlocks(t *testing.T) {
	got, err := Blocks(doc("# T", "```sh", "make run", "```", "```text", "output", "```", "<!-- not run: it would run itself -->", "```sh", "make test", "```",
		"<!-- not run: not ours -->", "", "```sh", "k6 run -e A=b x.js", "```", "```sh", "cat <<'EOF'", "", "  x", "EOF", "```"))
	if err != nil {
		t.Fatal(err)
	}
	want := []Block{
		{2, "make run\n", ""}, {9, "make test\n", "it would run itself"}, {14, "k6 run -e A=b x.js\n", "not ours"}, {17, "cat <<'EOF'\n\n  x\nEOF\n", ""},
	}
	if len(got) != len(want) {
		t.Fatalf("blocks %+v", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("block %d is %+v, want %+v", i, got[i], want[i])
		}
	}
}

func TestBlocksRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"excuse for another command": doc("<!-- not run: slow -->", "```sh", "make build", "```"),
		"excuse for more than tests": doc("<!-- not run: slow -->", "```sh", "make test", "rm x", "```"),
		"no reason":                  doc("<!-- not run: -->", "```sh", "make test", "```"),
		"excuse above text":          doc("<!-- not run: slow -->", "text", "```sh", "make test", "```"),
		"not closed":                 doc("```sh", "make run"),
		"empty":                      doc("```sh", "```"),
	} {
		if blocks, err := Blocks(text); err == nil {
			t.Errorf("%s: read as %+v", name, blocks)
		}
	}
}
