package tidy

import (
	"go/ast"
	"strings"
)

// ban forbids a selector such as time.Now. From is the import path of the package, or "" for a method or function
// name that is wrong whatever it is called on. Allowed lists folders that may use it; test says whether tests may.
type ban struct {
	from, name string
	allowed    []string
	tests      bool
	instead    string
}

// bans is the table of calls that have a better replacement here.
func bans() []ban {
	// pkg/instance is the inside of `weir up`: a tool's edge, never linked by a service.
	edge := []string{"pkg/cmd", "pkg/instance", "pkg/embedded", "pkg/testkit", "loadtest", "docs/examples"}
	tool := []string{"pkg/cmd", "loadtest", "docs/examples"}
	clock := "time enters at the edge: take a time.Time value, or func() time.Time from main"
	return []ban{
		{"time", "Now", edge, true, clock},
		{"time", "Since", edge, true, clock},
		{"time", "Until", edge, true, clock},
		{"time", "Sleep", nil, false, "wait for a signal or a condition with a deadline; in services select on a timer and ctx.Done()"},
		{"os", "Getenv", append([]string{"pkg/config", "pkg/internal/tidy"}, edge...), true, "configuration is read once, by pkg/config in main"},
		{"os", "LookupEnv", append([]string{"pkg/config", "pkg/internal/tidy"}, edge...), true, "configuration is read once, by pkg/config in main"},
		{"fmt", "Print", tool, true, "services log through the injected *slog.Logger; commands write to a given io.Writer"},
		{"fmt", "Printf", tool, true, "services log through the injected *slog.Logger; commands write to a given io.Writer"},
		{"fmt", "Println", tool, true, "services log through the injected *slog.Logger; commands write to a given io.Writer"},
		{"log", "*", nil, false, "use the injected *slog.Logger"},
		{"log/slog", "Default", nil, false, "use the injected *slog.Logger"},
		{"log/slog", "SetDefault", nil, false, "pass the *slog.Logger on"},
		{"log/slog", "Info", nil, false, "use the injected *slog.Logger"},
		{"log/slog", "Warn", nil, false, "use the injected *slog.Logger"},
		{"log/slog", "Error", nil, false, "use the injected *slog.Logger"},
		{"", "NewFromFloat", nil, false, "money.Parse of a decimal string: a float is already rounded"},
		{"", "InexactFloat64", nil, false, "the decimal string: a float would round money"},
		{"", "Skip", nil, false, "a test that cannot run fails; a server that is missing is installed by `make test`"},
		{"", "Skipf", nil, false, "a test that cannot run fails; a server that is missing is installed by `make test`"},
		{"", "SkipNow", nil, false, "a test that cannot run fails; a server that is missing is installed by `make test`"},
	}
}

func checkCalls(f goFile) []finding {
	if f.generated() {
		return nil
	}
	var found []finding
	for _, b := range bans() {
		if underAny(f.path, b.allowed) || f.isTest() && b.tests || f.isMain() && b.allowed != nil {
			continue
		}
		found = append(found, f.uses(b)...)
	}
	return found
}

// uses finds selectors of the ban: qualified by the import's local name, or on a test handle for Skip.
func (f goFile) uses(b ban) []finding {
	local := f.localName(b.from)
	if b.from != "" && local == "" {
		return nil
	}
	var found []finding
	ast.Inspect(f.tree, func(node ast.Node) bool {
		selector, ok := node.(*ast.SelectorExpr)
		if !ok || b.name != "*" && selector.Sel.Name != b.name {
			return true
		}
		qualifier, simple := selector.X.(*ast.Ident)
		if b.from != "" && (!simple || qualifier.Name != local) {
			return true
		}
		if strings.HasPrefix(b.name, "Skip") && (!f.isTest() || !simple || len(qualifier.Name) > 2) {
			return true // Skip of something that is no *testing.T, B or F
		}
		found = append(found, f.at(selector.Pos(), "%s: %s", text(selector), b.instead))
		return true
	})
	return found
}

// text is the selector as it was written, as far as it is simple.
func text(selector *ast.SelectorExpr) string {
	if qualifier, ok := selector.X.(*ast.Ident); ok {
		return qualifier.Name + "." + selector.Sel.Name
	}
	return selector.Sel.Name
}

// moneyFolders is where a binary float has no business at all (I5).
func moneyFolders() []string {
	return []string{
		"pkg/domain/money", "pkg/domain/pricing", "pkg/domain/ledger", "pkg/domain/window", "pkg/domain/admit",
		"pkg/domain/breaker", "pkg/domain/ladder", "pkg/domain/tenant", "pkg/budgetstore", "pkg/audit",
	}
}

func checkFloats(f goFile) []finding {
	if f.isTest() || !underAny(f.path, moneyFolders()) {
		return nil
	}
	var found []finding
	ast.Inspect(f.tree, func(node ast.Node) bool {
		if name, ok := node.(*ast.Ident); ok && (name.Name == "float64" || name.Name == "float32") {
			found = append(found, f.at(name.Pos(), "%s near money: use money's decimals or int64 nano-dollars", name.Name))
		}
		return true
	})
	return found
}
