package tidy

import (
	"go/ast"
	"go/token"
	"strings"
)

// checkVars finds package-level variables that can change, over all files of one folder. Error values, embedded files
// and unexported tables that nothing in the package writes to are constants in all but name.
func checkVars(files []goFile) []finding {
	var found []finding
	written := writtenNames(files)
	for _, f := range files {
		if f.isTest() || f.generated() {
			continue
		}
		for _, declaration := range f.tree.Decls {
			group, ok := declaration.(*ast.GenDecl)
			if !ok || group.Tok != token.VAR {
				continue
			}
			for _, spec := range group.Specs {
				value, ok := spec.(*ast.ValueSpec)
				if ok && !embedded(group, value) {
					found = append(found, f.judgeVar(value, written)...)
				}
			}
		}
	}
	return found
}

func (f goFile) judgeVar(value *ast.ValueSpec, written map[string]bool) []finding {
	var found []finding
	for i, name := range value.Names {
		sentinel := strings.HasPrefix(strings.ToLower(name.Name), "err") && len(value.Values) > 0
		switch {
		case name.Name == "_", sentinel:
		case name.IsExported():
			found = append(found, f.at(name.Pos(), "exported variable %s: anyone could change it; make it a constant or a function", name.Name))
		case written[name.Name]:
			found = append(found, f.at(name.Pos(), "package variable %s is written to: keep state in a value that main makes", name.Name))
		case len(value.Values) <= i:
			found = append(found, f.at(name.Pos(), "package variable %s has no value: it can only be state", name.Name))
		}
	}
	return found
}

// embedded reports a //go:embed variable.
func embedded(group *ast.GenDecl, value *ast.ValueSpec) bool {
	for _, comments := range []*ast.CommentGroup{group.Doc, value.Doc} {
		if comments == nil {
			continue
		}
		for _, comment := range comments.List {
			if strings.HasPrefix(comment.Text, "//go:embed ") {
				return true
			}
		}
	}
	return false
}

// writtenNames collects identifiers that a package assigns to, changes an element of, or takes the address of. A local
// variable of the same name counts too: then rename one of them.
func writtenNames(files []goFile) map[string]bool {
	written := map[string]bool{}
	mark := func(target ast.Expr) {
		if name := rootName(target); name != "" {
			written[name] = true
		}
	}
	for _, f := range files {
		ast.Inspect(f.tree, func(node ast.Node) bool {
			switch n := node.(type) {
			case *ast.AssignStmt:
				if n.Tok != token.DEFINE {
					for _, target := range n.Lhs {
						mark(target)
					}
				}
			case *ast.IncDecStmt:
				mark(n.X)
			case *ast.UnaryExpr:
				if n.Op == token.AND {
					mark(n.X)
				}
			case *ast.CallExpr:
				if name, ok := n.Fun.(*ast.Ident); ok && (name.Name == "delete" || name.Name == "clear") && len(n.Args) > 0 {
					mark(n.Args[0])
				}
			}
			return true
		})
	}
	return written
}

// rootName is x in x, x.f, x[i], *x, (x).
func rootName(target ast.Expr) string {
	switch t := target.(type) {
	case *ast.Ident:
		return t.Name
	case *ast.SelectorExpr:
		return rootName(t.X)
	case *ast.IndexExpr:
		return rootName(t.X)
	case *ast.StarExpr:
		return rootName(t.X)
	case *ast.ParenExpr:
		return rootName(t.X)
	}
	return ""
}
