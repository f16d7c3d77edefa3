package clickhouse

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		text, verb, format, target, settings, data string
		refused                                    bool
	}{
		{text: "SELECT 1 FORMAT JSON", verb: "SELECT", format: "JSON"},
		{text: "select a AS format from t", verb: "SELECT"},
		{text: "SELECT 1 FORMAT CSV SETTINGS max_threads = 1;", verb: "SELECT", format: "CSV"},
		{text: "SELECT format('{}', 1)", verb: "SELECT"},
		{text: "-- why\n/* ; */ (SELECT 1) UNION ALL (SELECT 2)", verb: "SELECT"},
		{text: "SELECT ';' AS `;`, $x$ ; $x$;", verb: "SELECT"},
		{text: "SELECT 1; SELECT 2", refused: true},
		{text: "SELECT 'it''s; \\'", refused: true},
		{text: " ; ", refused: true},
		{text: "INSERT INTO t (a, b) FORMAT Native", verb: "INSERT", format: "Native", target: "INSERT INTO t (a, b) "},
		{text: "INSERT INTO t SETTINGS a = 1, b = 'FORMAT' FORMAT CSV \r\n1;2\n'", verb: "INSERT", format: "CSV", target: "INSERT INTO t ", settings: " a = 1, b = 'FORMAT' ", data: "1;2\n'"},
		{text: "INSERT INTO t VALUES (1), (2)", verb: "INSERT"},
		{text: "INSERT INTO t SELECT 1 FORMAT Null", verb: "INSERT", format: "Null"},
		{text: "INSERT INTO t FORMAT Values (1)", verb: "INSERT"},
	} {
		s, err := parse(c.text)
		if (err != nil) != c.refused {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		if c.refused {
			continue
		}
		data := ""
		if s.dataAt >= 0 {
			data = s.text[s.dataAt:]
		}
		if s.verb != c.verb || s.format != c.format || s.target != c.target || s.settings != c.settings || data != c.data {
			t.Errorf("%q: verb %q, format %q, target %q, settings %q, data %q", c.text, s.verb, s.format, s.target, s.settings, data)
		}
	}
}

func TestDropDoesNotWait(t *testing.T) {
	for text, want := range map[string]string{
		"DROP TABLE a.b SYNC;": "DROP TABLE a.b", "drop database d no delay": "drop database d", "DROP TABLE sync": "DROP TABLE",
		"DROP TABLE `SYNC`": "DROP TABLE `SYNC`", "SELECT SYNC": "SELECT SYNC",
	} {
		s, err := parse(text)
		if err != nil || strings.TrimSpace(s.text) != want {
			t.Errorf("%q became %q, %v", text, s.text, err)
		}
	}
}

func TestGuardRefusesWhatReachesOut(t *testing.T) {
	forbidden := map[string]bool{"file": true, "url": true}
	for text, allowed := range map[string]bool{
		"SELECT 1": true, "SELECT file FROM t": true, "SELECT 'file(' AS `cost/day`": true, "SHOW TABLES": true,
		"SELECT FILE ('x')": false, "SELECT \"url\" ('x')": false, "SELECT 1 INTO OUTFILE 'x'": false, "KILL QUERY WHERE 1": false,
		"SELECT * FROM `/etc/passwd`": false, "SELECT * FROM 'x'": false, "SELECT * FROM default.\"a/b\"": false, "INSERT INTO t VALUES (1)": false,
	} {
		s, err := parse(text)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if err := s.guard(forbidden); (err == nil) != allowed {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestParseException(t *testing.T) {
	for text, code := range map[string]int{
		"Code: 60. DB::Exception: no table":                           60,
		"Code: 164. DB::Exception: Code: 164. DB::Exception: refused": 164,
		"something else": codeLogical,
	} {
		e := parseException(text)
		if e.Code != code || strings.Count(e.Text, "Code: ") != 1 {
			t.Errorf("%q: %d, %q", text, e.Code, e.Text)
		}
	}
}

// FuzzParse: whatever comes in, the pieces lie in the text, in order.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "SELECT 1", "INSERT INTO t FORMAT CSV\n1", "DROP TABLE t SYNC", "'", "$a$", "/*", "((", "\xff`", "# x", "-- \n;"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		at := 0
		for _, tok := range tokenize(text) {
			if tok.start < at || tok.end <= tok.start || tok.end > len(text) {
				t.Fatalf("token %+v after %d in %q", tok, at, text)
			}
			at = tok.end
		}
		s, err := parse(text)
		if err == nil && s.dataAt > len(s.text) {
			t.Fatalf("data at %d of %d", s.dataAt, len(s.text))
		}
	})
}
