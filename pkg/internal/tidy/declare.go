package tidy

import (
	"go/ast"
	"slices"
	"strings"
)

// checkUnfinished finds marks of work that was left; they belong into an issue. The words are put together here so
// that this file does not find itself.
func checkUnfinished(f goFile) []finding {
	if f.generated() { // its generator's words
		return nil
	}
	var found []finding
	for number, line := range strings.Split(f.text, "\n") {
		for _, mark := range []string{"TO" + "DO", "FIX" + "ME", "not " + "implemented", "X" + "XX"} {
			if strings.Contains(line, mark) {
				found = append(found, finding{f.path, number + 1, mark + ": finish it, or open an issue and say what happens today"})
			}
		}
	}
	return found
}

func checkInit(f goFile) []finding {
	if f.generated() {
		return nil
	}
	var found []finding
	for _, declaration := range f.tree.Decls {
		if function, ok := declaration.(*ast.FuncDecl); ok && function.Recv == nil && function.Name.Name == "init" {
			found = append(found, f.at(function.Pos(), "init(): do it in a constructor that main calls"))
		}
	}
	return found
}

// checkPanics allows a panic only in functions named Must…, whose arguments come from the source code, not from input.
func checkPanics(f goFile) []finding {
	if f.isTest() || f.generated() || underAny(f.path, []string{"loadtest", "pkg/testkit"}) {
		return nil
	}
	var found []finding
	for _, declaration := range f.tree.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if !ok || function.Body == nil || strings.HasPrefix(strings.ToLower(function.Name.Name), "must") {
			continue
		}
		ast.Inspect(function.Body, func(node ast.Node) bool {
			if call, ok := node.(*ast.CallExpr); ok {
				if name, ok := call.Fun.(*ast.Ident); ok && name.Name == "panic" {
					found = append(found, f.at(call.Pos(), "panic in %s: return an error (or name it Must… and give it constants only)", function.Name.Name))
				}
			}
			return true
		})
	}
	return found
}

func checkPackageName(f goFile) []finding {
	name := strings.TrimSuffix(f.tree.Name.Name, "_test")
	if slices.Contains([]string{"common", "util", "utils", "helper", "helpers", "base", "core", "types", "models", "shared", "misc", "lib"}, name) {
		return []finding{f.at(f.tree.Name.Pos(), "package %s: name it after the one thing it owns", name)}
	}
	return nil
}
