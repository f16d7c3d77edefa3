package usageevent

import (
	"testing"
	"time"
)

// Goal: usage that is not JSON, or not JSON alone, is written as a string, which Decode refuses.
func TestCanonicalOfNoJSON(t *testing.T) {
	for _, raw := range []string{``, `{"a":1`, `{"a":1}}`, `{"a":1}]`, `{"a":1} {}`, `{"a":1} x`} {
		ev := Event{ID: "e", Source: "s", Type: TypeUsage, Data: Data{Usage: []byte(raw)}}
		if _, err := Decode(Encode(ev), nil); err == nil || Canonical([]byte(raw))[0] != '"' {
			t.Errorf("%q is written as %s: %v", raw, Canonical([]byte(raw)), err)
		}
	}
}

// Two copies of the breaker that end one execution for different causes say the same.
func TestTerminationHash(t *testing.T) {
	end := func(root, cause string, at int64) [32]byte {
		return ContentHash(Event{
			ID: "termination:" + root, Source: SourceBreaker, Type: TypeTermination, Subject: "acme", Time: time.Unix(at, 0),
			Data: Data{RootExecutionID: root, ErrorCode: cause},
		})
	}
	if end("r1", "cost", 1) != end("r1", "calls", 2) || end("r1", "cost", 1) == end("r2", "cost", 1) {
		t.Error("a termination is what it ends, whatever the cause")
	}
}
