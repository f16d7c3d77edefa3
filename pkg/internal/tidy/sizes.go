package tidy

import (
	"go/ast"
	"path"
	"strings"
)

const (
	// maxFileLines and maxFunctionLines are hard limits for code that is not a test; the targets are 150 and 12.
	maxFileLines     = 400
	maxFunctionLines = 70
	// maxMainLines keeps mains boring: parse, validate, build, run.
	maxMainLines = 80
)

func checkFileLength(f goFile) []finding {
	if f.isTest() || f.generated() {
		return nil
	}
	lines, limit, advice := strings.Count(f.text, "\n"), maxFileLines, "split it by concept"
	if f.isMain() {
		limit, advice = maxMainLines, "move decisions out of main"
	}
	if lines <= limit {
		return nil
	}
	return []finding{f.at(f.tree.End(), "%s has %d lines, at most %d: %s", path.Base(f.path), lines, limit, advice)}
}

func checkFunctionLength(f goFile) []finding {
	if f.isTest() || f.generated() {
		return nil
	}
	var found []finding
	for _, declaration := range f.tree.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if !ok || function.Body == nil {
			continue
		}
		lines := f.set.Position(function.End()).Line - f.set.Position(function.Pos()).Line + 1
		if lines > maxFunctionLines {
			found = append(found, f.at(function.Pos(), "%s has %d lines, at most %d: name its steps", function.Name.Name, lines, maxFunctionLines))
		}
	}
	return found
}
