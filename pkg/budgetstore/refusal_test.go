package budgetstore

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

// said is an answer of Redis, as the client gives it.
type said string

func (s said) Error() string { return string(s) }
func (said) RedisError()     {}

// Goal: what Redis says of itself is known by its first word, wherever it is wrapped; what only begins like it, or says nothing
// of itself, is not.
func TestRefusal(t *testing.T) {
	for text, kind := range map[string]string{
		"OOM command not allowed when used memory > 'maxmemory'. script: 5a, on @user_script:1.": "OOM",
		"READONLY You can't write against a read only replica.":                                  "READONLY",
		"MISCONF Errors writing to the AOF file: No space left on device":                        "MISCONF",
		"LOADING Redis is loading the dataset in memory":                                         "LOADING",
		"NOREPLICAS Not enough good replicas to write.":                                          "NOREPLICAS",
		"BUSY Redis is busy running a script.":                                                   "BUSY",
		"NOPERM User weir has no permissions to run the 'eval' command":                          "NOPERM",
		"ERR unknown command 'OOM'":                                                              "",
		"OOMPH":                                                                                  "",
		"BUSYKEY Target key name already exists.":                                                "",
	} {
		err := fmt.Errorf("%w: reserve: %w", ErrUnavailable, said(text))
		if r, ok := AsRefusal(err); r.Kind != kind || ok != (kind != "") {
			t.Errorf("%s: %q", text, r.Kind)
		}
	}
	for _, err := range []error{nil, context.DeadlineExceeded, ErrUnavailable, errors.New("OOM but not of Redis")} {
		if r, ok := AsRefusal(err); ok {
			t.Errorf("%v: %v", err, r)
		}
	}
	wrapped := fmt.Errorf("inspect: %w", ErrReplica)
	if r, ok := AsRefusal(wrapped); !ok || r != ErrReplica || !errors.Is(wrapped, ErrUnavailable) {
		t.Errorf("%v", wrapped)
	}
}
