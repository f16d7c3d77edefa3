package usageevent

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// Check and Decode of what is signed are one rule: whatever Check lets pass, Decode reads from what Encode wrote, and what it
// refuses, Decode refuses too.
func FuzzCheckIsDecode(f *testing.F) {
	for _, s := range []string{"", "r1", "None", "null", " NIL ", "<nil>", "undefined", "NaN", "[object Object]", "HTTP 500\nTraceback", "\x00", "\x7f", "ä€😀",
		strings.Repeat("x", MaxID), strings.Repeat("x", MaxID+1), strings.Repeat("x", MaxText+1), strings.Repeat("x", MaxToken+1)} {
		for i := range new(Data).texts() {
			f.Add(i, s)
		}
	}
	f.Fuzz(func(t *testing.T, at int, s string) {
		s = strings.ToValidUTF8(s, "�") // as every JSON reader makes it
		var d Data
		texts := d.texts()
		m := texts[uint(at)%uint(len(texts))]
		name := m.name
		if name == "status" {
			return // its values are checked where they are given
		}
		*m.to = s
		err := Check(d)
		_, decoded := Decode(Encode(Event{ID: "e", Source: "s", Type: TypeUsage, Time: time.Unix(1e9, 0), Data: d}), headers(signatureHeader, "x"))
		if (err == nil) != (decoded == nil) {
			t.Fatalf("%s %q: Check says %v, Decode %v", name, s, err, decoded)
		}
		if e := new(Error); err != nil && (!errors.As(err, &e) || e.Field != name) {
			t.Fatalf("%s %q: %+v", name, s, err)
		}
		if clean := Clean(s, MaxText); Check(Data{ErrorCode: clean}) != nil || !utf8.ValidString(clean) {
			t.Fatalf("%q cleaned is %q", s, clean)
		}
	})
}

func TestClean(t *testing.T) {
	for in, want := range map[string]string{"429": "429", "500\nTrace": "500 Trace", "\r\n\tx\x7f": "x", "": "", "\x00": "",
		"aaaaaaaaa€": "aaaaaaaaa", "aaaaaaa€b": "aaaaaaa€", "a\xffb": "a�b"} {
		if got := Clean(in, 10); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	for id, ok := range map[string]bool{"r1": true, "None": false, "NULL": false, "": false, "a\nb": false, strings.Repeat("x", 129): false} {
		if err := CheckID("reservation_id", id); (err == nil) != ok {
			t.Errorf("%q: %v", id, err)
		}
	}
}

// Whoever looks for a dead letter has the id that was sent, if it was an id at all.
func TestPeekID(t *testing.T) {
	for value, want := range map[string]string{`{"id":"e1","data":{"error_code":"a\nb"}}`: "e1", `{"id":7}`: "7", `{"id":null}`: "", `{"id":"a\nb"}`: "a b", `{`: "", ``: "",
		`[{"id":"e1"}]`: "", `{"id":"` + strings.Repeat("x", 999) + `"}`: strings.Repeat("x", MaxOwnID)} {
		if got := PeekID([]byte(value), nil); got != want {
			t.Errorf("%s: %q", value, got)
		}
	}
	if got := PeekID([]byte("{}"), headers("ce_id", "e2")); got != "e2" {
		t.Errorf("binary: %q", got)
	}
}
