package admission

import (
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

// Goal: whoever looks for where to change something finds it. Method: each file and each package here is named in the table of
// README.md, and each name there is of one.
func TestReadmeNamesEveryRoom(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(readme), "## Where to change what")
	table, _, _ = strings.Cut(table, "\nFlags:")
	found := map[string]bool{}
	for _, name := range regexp.MustCompile("`[a-z_*]+(\\.go|/[a-z]*)`").FindAllString(table, -1) {
		found[strings.Trim(name, "`/")] = false
	}
	var rooms []string
	for _, dir := range []string{".", "cmd"} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			name := path.Join(dir, e.Name())
			if e.IsDir() && name != "cmd" && name != "testdata" || strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
				rooms = append(rooms, name)
			}
		}
	}
	for _, room := range rooms {
		named := false
		for pattern := range found {
			if ok, err := path.Match(pattern, room); err != nil {
				t.Fatal(err)
			} else if ok {
				named, found[pattern] = true, true
			}
		}
		if !named {
			t.Errorf("%s is not in the table of README.md, Where to change what: add it to the row that it belongs to", room)
		}
	}
	for pattern, is := range found {
		if !is {
			t.Errorf("README.md names %s, which is not there", pattern)
		}
	}
}
