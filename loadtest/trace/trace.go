// Package trace reads the Azure LLM inference traces (loadtest/testdata) and says when to play each call.
//
// It owns the file's format and the pace. It does not own who makes a call: that is the scenario's (loadtest/demo).
//
// Invariants: a row that is not exactly as the format has it is an error that names its line; a file's time sets the
// pace only and is never the time of an event.
//
// Bounds: MaxCalls a file, MaxTokens a figure.
package trace

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Bounds of a file: the real ones have 19,366 rows and 14,050 tokens at most.
const (
	MaxCalls  = 1_000_000
	MaxTokens = 10_000_000
)

const (
	header = "TIMESTAMP,ContextTokens,GeneratedTokens"
	layout = "2006-01-02 15:04:05.0000000"
)

// Call is one row.
type Call struct {
	At     time.Time // UTC, to 100 ns
	Input  int64     // context tokens
	Output int64     // generated tokens
}

// Read reads a whole file: its header, then rows in the order of time. Lines end with CR LF or LF.
func Read(r io.Reader) ([]Call, error) {
	lines := bufio.NewScanner(r)
	if !lines.Scan() || lines.Text() != header {
		return nil, fmt.Errorf("trace: the first line is not %q: %w", header, orEOF(lines.Err()))
	}
	var calls []Call
	for n := 2; lines.Scan(); n++ {
		c, err := parse(lines.Text())
		if err == nil && len(calls) > 0 && c.At.Before(calls[len(calls)-1].At) {
			err = fmt.Errorf("its time is before that of the row above")
		}
		if err == nil && len(calls) == MaxCalls {
			err = fmt.Errorf("more than %d calls", MaxCalls)
		}
		if err != nil {
			return nil, fmt.Errorf("trace: line %d: %w", n, err)
		}
		calls = append(calls, c)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	return calls, nil
}

func orEOF(err error) error {
	if err == nil {
		return io.ErrUnexpectedEOF
	}
	return err
}

func parse(line string) (Call, error) {
	fields := strings.Split(line, ",")
	if len(fields) != 3 {
		return Call{}, fmt.Errorf("%d fields, not 3", len(fields))
	}
	at, err := time.Parse(layout, fields[0])
	if err != nil {
		return Call{}, fmt.Errorf("timestamp %q", fields[0])
	}
	in, err := tokens(fields[1])
	if err != nil {
		return Call{}, err
	}
	out, err := tokens(fields[2])
	if err != nil {
		return Call{}, err
	}
	return Call{At: at, Input: in, Output: out}, nil
}

// tokens reads plain digits only: no sign, no space, no leading zero.
func tokens(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || n > MaxTokens || strconv.FormatInt(n, 10) != s {
		return 0, fmt.Errorf("tokens %q are not a whole number from 0 to %d", s, MaxTokens)
	}
	return n, nil
}

// Merge puts several traces into one order of time; rows of the same instant keep the order of the arguments, and of
// the rows within each.
func Merge(traces ...[]Call) []Call {
	var all []Call
	for _, t := range traces {
		all = append(all, t...)
	}
	slices.SortStableFunc(all, func(a, b Call) int { return cmp.Compare(a.At.UnixNano(), b.At.UnixNano()) })
	return all
}

// Pace is when to play each call of a trace that starts with first: its distance to first, divided by speed.
type Pace struct {
	first time.Time
	speed int64
}

// NewPace is the pace of a trace whose first call is at first. Speed is a whole factor; below 1 is taken as 1.
func NewPace(first time.Time, speed int64) Pace { return Pace{first: first, speed: max(speed, 1)} }

// Offset is how long after the start of the play c is due.
func (p Pace) Offset(c Call) time.Duration { return c.At.Sub(p.first) / time.Duration(p.speed) }
