package tidy

import (
	"fmt"
	"go/ast"
	"slices"
)

// strictDocs lists the folders in which every exported identifier is documented; elsewhere in pkg nine of ten are.
func strictDocs() []string { return []string{"pkg/domain", "pkg/bus"} }

// checkDocs wants a package comment and documented exported identifiers. Files are those of one folder.
func checkDocs(files []goFile) []finding {
	var undocumented []finding
	exported, commented := 0, false
	for _, f := range files {
		if f.isTest() || f.generated() {
			continue
		}
		commented = commented || f.tree.Doc != nil
		for _, declaration := range f.tree.Decls {
			for _, thing := range exportedThings(declaration) {
				exported++
				if !thing.documented {
					undocumented = append(undocumented, f.at(thing.name.Pos(), "%s is exported without a comment: give units, shapes, errors", thing.name.Name))
				}
			}
		}
	}
	source := slices.DeleteFunc(slices.Clone(files), func(f goFile) bool { return f.isTest() || f.generated() })
	if len(source) == 0 {
		return nil
	}
	var found []finding
	if !commented {
		found = append(found, finding{source[0].path, 0, "the package has no comment: say what it owns, what it does not, and its invariants"})
	}
	folder := source[0].dir()
	switch {
	case underAny(folder, strictDocs()):
		return append(found, undocumented...)
	case under(folder, "pkg") && len(undocumented)*10 > exported:
		found = append(found, finding{source[0].path, 0, fmt.Sprintf("%d of %d exported identifiers have no comment, at most one in ten", len(undocumented), exported)})
		return append(found, undocumented...)
	}
	return found
}

// thing is one exported identifier.
type thing struct {
	name       *ast.Ident
	documented bool
}

// exportedThings lists functions, methods of exported types, types, constants and variables. A group's comment serves
// constants and variables that have none of their own; methods that the standard library defines need none.
func exportedThings(declaration ast.Decl) []thing {
	switch d := declaration.(type) {
	case *ast.FuncDecl:
		wellKnown := d.Recv != nil && slices.Contains([]string{"Error", "String", "Unwrap", "Is", "Len", "Less", "Swap"}, d.Name.Name)
		if d.Name.IsExported() && exportedReceiver(d) {
			return []thing{{d.Name, d.Doc != nil || wellKnown}}
		}
	case *ast.GenDecl:
		var all []thing
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() {
					all = append(all, thing{s.Name, d.Doc != nil || s.Doc != nil})
				}
			case *ast.ValueSpec:
				for _, name := range s.Names {
					if name.IsExported() {
						all = append(all, thing{name, d.Doc != nil || s.Doc != nil || s.Comment != nil})
					}
				}
			}
		}
		return all
	}
	return nil
}

func exportedReceiver(function *ast.FuncDecl) bool {
	if function.Recv == nil || len(function.Recv.List) == 0 {
		return true
	}
	return ast.IsExported(receiverName(function.Recv.List[0].Type))
}

func receiverName(expression ast.Expr) string {
	switch e := expression.(type) {
	case *ast.StarExpr:
		return receiverName(e.X)
	case *ast.IndexExpr:
		return receiverName(e.X)
	case *ast.IndexListExpr:
		return receiverName(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
