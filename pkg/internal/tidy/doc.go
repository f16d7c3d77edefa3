// Package tidy holds the project's rules of style and structure as ordinary fast tests over all three modules.
//
// It owns the rules that a compiler or a general linter does not know: who may import what and why, how long a file
// may be, which calls have a better replacement here. Each rule is one function from parsed source to findings; each
// has a test of its own on a bad snippet, and a message that says what to do instead. It does not own formatting
// (gofmt), vet or staticcheck, and it never changes a file.
//
// Invariant: a rule has no list of exceptions that nobody needs any more. Where it names packages, they must exist.
package tidy

import "fmt"

// finding is one broken rule at one place. Line is 1-based; 0 means the whole file.
type finding struct {
	file string
	line int
	text string
}

func (f finding) String() string {
	if f.line == 0 {
		return f.file + ": " + f.text
	}
	return fmt.Sprintf("%s:%d: %s", f.file, f.line, f.text)
}

// rule looks at one Go file.
type rule struct {
	name  string
	check func(goFile) []finding
}

// rules lists those that look at one file at a time; rules over folders, imports and documents stand beside them.
func rules() []rule {
	return []rule{
		{"file length", checkFileLength},
		{"function length", checkFunctionLength},
		{"calls with a replacement", checkCalls},
		{"binary floats near money", checkFloats},
		{"unfinished work", checkUnfinished},
		{"init functions", checkInit},
		{"panics", checkPanics},
		{"package names", checkPackageName},
		{"direct imports", checkImports},
		{"domain order", checkDomainOrder},
	}
}
