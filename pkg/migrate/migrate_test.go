package migrate_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/weir-project/weir/pkg/migrate"
)

func files(pairs ...string) fstest.MapFS {
	fsys := fstest.MapFS{}
	for i := 0; i < len(pairs); i += 2 {
		fsys[pairs[i]] = &fstest.MapFile{Data: []byte(pairs[i+1])}
	}
	return fsys
}

// TestLoadRefuses lists file sets that would silently skip something.
func TestLoadRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		files fstest.MapFS
		want  string
	}{
		"none":          {files(), "no *.sql"},
		"no check":      {files("0001_a.up.sql", "x"), "check.sql"},
		"empty check":   {files("0001_a.up.sql", "x", "0001_a.check.sql", " \n"), "check.sql"},
		"check alone":   {files("0001_a.check.sql", "x"), "up.sql"},
		"gap":           {files("0001_a.up.sql", "x", "0001_a.check.sql", "x", "0003_c.up.sql", "x", "0003_c.check.sql", "x"), "missing"},
		"starts at 2":   {files("0002_a.up.sql", "x", "0002_a.check.sql", "x"), "missing"},
		"twice":         {files("0001_a.up.sql", "x", "0001_b.check.sql", "x"), "already"},
		"odd name":      {files("1_a.up.sql", "x"), "want NNNN"},
		"odd character": {files("0001_a'.up.sql", "x"), "want NNNN"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := migrate.Load(tc.files); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("got %v, want an error with %q", err, tc.want)
			}
		})
	}
}

// TestLoadFolder: an embed.FS keeps the folder's name; two folders are not guessed about.
func TestLoadFolder(t *testing.T) {
	got, err := migrate.Load(files("postgres/0001_a.up.sql", "x", "postgres/0001_a.check.sql", "y"))
	if err != nil || len(got) != 1 || got[0].String() != "0001_a" || got[0].Up != "x" || got[0].Check != "y" {
		t.Fatalf("%+v %v", got, err)
	}
	if _, err := migrate.Load(files("a/0001_a.up.sql", "x", "b/0001_a.check.sql", "y")); err == nil {
		t.Fatal("two folders were taken")
	}
}

// fakeDB records statements and answers selects from a table.
type fakeDB struct {
	ran     []string
	records [][]string
	answers map[string][][]string
	fail    string
}

func (f *fakeDB) Exec(_ context.Context, s string) error {
	if f.fail != "" && strings.Contains(s, f.fail) {
		return errors.New("refused")
	}
	f.ran = append(f.ran, s)
	if strings.HasPrefix(s, "INSERT INTO schema_migrations") {
		q := strings.Split(s, "'")
		f.records = append(f.records, []string{strings.Trim(strings.Split(s, "(")[2], " ,'")[:1], q[1], q[3]})
	}
	return nil
}

func (f *fakeDB) Query(_ context.Context, s string) ([][]string, error) {
	if strings.Contains(s, "FROM schema_migrations") {
		return f.records, nil
	}
	return f.answers[s], nil
}

// TestStatements walks a database through first run, second run, a failed check, a changed file and an older binary.
func TestStatements(t *testing.T) {
	ctx := context.Background()
	run := func(db *fakeDB, f fstest.MapFS) (int, error) {
		done, err := migrate.Statements(ctx, db, "CREATE records", f)
		return len(done), err
	}
	one := files("0001_a.up.sql", "CREATE a; -- the ';' here\nCREATE b", "0001_a.check.sql", "SELECT 1; SELECT bad")
	db := &fakeDB{answers: map[string][][]string{"SELECT 1": {{"1"}}}}
	if n, err := run(db, one); n != 1 || err != nil {
		t.Fatalf("first run: %d %v", n, err)
	}
	if want := []string{"CREATE records", "CREATE a", "CREATE b"}; !slices.Equal(db.ran[:3], want) {
		t.Fatalf("ran %q", db.ran)
	}
	if n, err := run(db, one); n != 0 || err != nil {
		t.Fatalf("second run: %d %v", n, err)
	}
	two := files("0001_a.up.sql", "CREATE a; -- the ';' here\nCREATE b", "0001_a.check.sql", "SELECT 1; SELECT bad",
		"0002_b.up.sql", "CREATE c", "0002_b.check.sql", "SELECT wrong")
	db.answers["SELECT wrong"] = [][]string{{"t"}, {"column x", "is missing"}}
	if n, err := run(db, two); n != 0 || err == nil || !strings.Contains(err.Error(), "column x, is missing") {
		t.Fatalf("failed check: %d %v", n, err)
	}
	delete(db.answers, "SELECT wrong")
	if n, err := run(db, two); n != 1 || err != nil {
		t.Fatalf("after the cure: %d %v", n, err)
	}
	changed := files("0001_a.up.sql", "CREATE other", "0001_a.check.sql", "SELECT 1; SELECT bad")
	if _, err := run(db, changed); err == nil || !strings.Contains(err.Error(), "changed") {
		t.Fatalf("changed file: %v", err)
	}
	if _, err := run(db, one); err == nil || !strings.Contains(err.Error(), "newer") {
		t.Fatalf("older files: %v", err)
	}
	broken := &fakeDB{fail: "CREATE b"}
	if n, err := run(broken, one); n != 0 || err == nil || len(broken.records) != 0 {
		t.Fatalf("failed statement: %d %v, records %v", n, err, broken.records)
	}
}

func TestSplit(t *testing.T) {
	for _, tc := range []struct {
		script string
		want   []string
	}{
		{"", nil},
		{" ; ;; \n", nil},
		{"a;b", []string{"a", "b"}},
		{"-- only; a comment", nil},
		{"/* a;b */ c; # d;\n e;", []string{"c", "e"}},
		{"select ';' ; x", []string{"select ';'", "x"}},
		{`select 'it\';s', 'it'';s'; x`, []string{`select 'it\';s', 'it'';s'`, "x"}},
		{"select `a;b`, \"c;d\"; x", []string{"select `a;b`, \"c;d\"", "x"}},
		{"select 1 -- one; more\n, 2; x", []string{"select 1 -- one; more\n, 2", "x"}},
		{"select 'open; never closed", []string{"select 'open; never closed"}},
		{"a #5; b", []string{"a #5", "b"}},
	} {
		if got := migrate.Split(tc.script); !slices.Equal(got, tc.want) {
			t.Errorf("%q: got %q, want %q", tc.script, got, tc.want)
		}
	}
}

// FuzzSplit: no input panics, no statement is blank, and splitting what was split changes nothing.
func FuzzSplit(f *testing.F) {
	for _, seed := range []string{"a;b", "'", "/*", "--", "\\", "'a\\", "# x\n;'", "``;\"\"", "/*/;"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, script string) {
		parts := migrate.Split(script)
		for _, p := range parts {
			if again := migrate.Split(p); strings.TrimSpace(p) == "" || len(again) != 1 || again[0] != p {
				t.Fatalf("%q yields %q, which splits into %q", script, p, again)
			}
		}
	})
}
