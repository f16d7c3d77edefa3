package trace

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/loadtest"
)

func realTrace(t *testing.T, name string) []Call {
	t.Helper()
	raw, err := loadtest.Input(name)
	if err != nil {
		t.Fatal(err)
	}
	calls, err := Read(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	return calls
}

func TestReadRealTraces(t *testing.T) {
	conv, code := realTrace(t, loadtest.TraceConv), realTrace(t, loadtest.TraceCode)
	if len(conv) != 19_366 || len(code) != 8_819 {
		t.Fatalf("%d and %d calls, want 19,366 and 8,819", len(conv), len(code))
	}
	first := time.Date(2023, 11, 16, 18, 15, 46, 680590000, time.UTC)
	if conv[0] != (Call{At: first, Input: 374, Output: 44}) {
		t.Fatalf("first call %+v", conv[0])
	}
	all := Merge(conv, code)
	var in, out int64
	for _, c := range all {
		in, out = in+c.Input, out+c.Output
	}
	if in != 40_421_844 || out != 4_334_561 {
		t.Fatalf("%d and %d tokens in all", in, out)
	}
	last := NewPace(first, 60).Offset(all[len(all)-1])
	if last < 58*time.Second || last > 60*time.Second {
		t.Fatalf("the hour plays in %s at 60", last)
	}
}

func TestReadRefuses(t *testing.T) {
	row := "2023-11-16 18:15:46.6805900,374,44\n"
	for name, text := range map[string]string{
		"empty":             "",
		"other header":      "TIMESTAMP,In,Out\n" + row,
		"two fields":        header + "\n2023-11-16 18:15:46.6805900,374",
		"four fields":       header + "\n2023-11-16 18:15:46.6805900,374,44,1",
		"blank line":        header + "\n" + row + "\n",
		"negative":          header + "\n2023-11-16 18:15:46.6805900,-1,44",
		"plus sign":         header + "\n2023-11-16 18:15:46.6805900,+1,44",
		"leading zero":      header + "\n2023-11-16 18:15:46.6805900,01,44",
		"fraction":          header + "\n2023-11-16 18:15:46.6805900,1.5,44",
		"space":             header + "\n2023-11-16 18:15:46.6805900, 1,44",
		"too many tokens":   header + "\n2023-11-16 18:15:46.6805900,10000001,44",
		"short time":        header + "\n2023-11-16 18:15:46,1,44",
		"no such day":       header + "\n2023-02-30 18:15:46.6805900,1,44",
		"backwards in time": header + "\n" + row + "2023-11-16 18:15:46.6805899,1,1",
	} {
		if calls, err := Read(strings.NewReader(text)); err == nil {
			t.Errorf("%s: read as %v", name, calls)
		}
	}
}

func TestMergeIsStable(t *testing.T) {
	at := time.Unix(100, 0)
	got := Merge([]Call{{At: at, Input: 1}, {At: at.Add(2), Input: 4}}, []Call{{At: at, Input: 2}, {At: at.Add(1), Input: 3}})
	for i, c := range got {
		if c.Input != int64(i+1) {
			t.Fatalf("order %v", got)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(header + "\r\n2023-11-16 18:15:46.6805900,374,44\r\n")
	f.Add(header)
	f.Add("\x00")
	f.Fuzz(func(t *testing.T, text string) {
		calls, err := Read(strings.NewReader(text))
		if err != nil && calls != nil {
			t.Fatal("calls beside an error")
		}
		for _, c := range calls {
			if c.Input < 0 || c.Output < 0 || c.Input > MaxTokens || c.Output > MaxTokens {
				t.Fatalf("out of bounds: %+v", c)
			}
		}
	})
}
