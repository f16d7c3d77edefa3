package main

import (
	"errors"
	"fmt"
	"strings"
)

const (
	exitDone  = 0
	exitNo    = 1 // the answer is no
	exitUsage = 2 // used wrongly
	exitAway  = 3 // a dependency is away, or not ready to be judged: any error that is neither no nor misuse
)

// errSilent ends a command whose answer is already printed.
var errSilent = errors.New("")

// codedError carries the exit code of an error.
type codedError struct {
	code int
	err  error
}

func (e codedError) Error() string { return e.err.Error() }
func (e codedError) Unwrap() error { return e.err }

// no is the answer no, with the reason printed.
func no(format string, args ...any) error { return codedError{exitNo, fmt.Errorf(format, args...)} }

// misuse is a mistake of the caller.
func misuse(format string, args ...any) error {
	return codedError{exitUsage, fmt.Errorf(format, args...)}
}

// awayFrom is a part (kafka, redis, postgres, clickhouse) that did not answer, or answered with an error.
func awayFrom(part string, err error) error {
	return fmt.Errorf("%s gave no answer: %s", part, strings.TrimPrefix(err.Error(), part+": "))
}

// silentNo is the answer no where everything has been said on standard output.
func silentNo() error { return codedError{exitNo, errSilent} }

// silentAway is a question that nobody could answer now, where everything has been said on standard output.
func silentAway() error { return codedError{exitAway, errSilent} }

// exitCode maps an error to the process' exit code.
func exitCode(err error) int {
	var coded codedError
	if errors.As(err, &coded) {
		return coded.code
	}
	return exitAway
}
