package usageevent

import (
	"testing"
	"time"
)

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
