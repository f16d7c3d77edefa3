package pricing

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weir-project/weir/pkg/domain/money"
)

// Kinds of change.
const (
	Added   = "added"
	Changed = "changed"
)

// Change is what importing a row would do to one model, for review.
type Change struct {
	Kind            string
	Provider, Model string
	Fields          []FieldChange // by name; of a new model, all its prices
	// Jump marks a price that grew or shrank more than tenfold, or became or
	// ceased to be free: the mark of a wrong unit.
	Jump bool
}

// FieldChange is one price before and after; "" is none.
type FieldChange struct{ Field, Old, New string }

// Diff compares rows with what is in force at an instant, by provider and
// model as the source names them. Models without any change are not listed,
// nor are those of the book that the rows do not name: an import leaves them as
// they are.
func Diff(old *Book, rows []Version, at time.Time) []Change {
	var changes []Change
	for _, row := range rows {
		h, _ := old.History(row.Provider, row.Model)
		before, known := h.At(at)
		c := Change{Kind: Changed, Provider: row.Provider, Model: row.Model}
		if !known {
			c.Kind = Added
		}
		c.Fields, c.Jump = fieldChanges(before, row)
		if c.Kind == Added || len(c.Fields) > 0 {
			c.Jump = c.Jump && c.Kind == Changed
			changes = append(changes, c)
		}
	}
	slices.SortStableFunc(changes, func(a, b Change) int {
		return cmp.Or(cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Model, b.Model))
	})
	return changes
}

// Unnamed counts the models of the book that have a provider of the rows but are
// not among them: an import of the rows leaves them as they are.
func Unnamed(old *Book, rows []Version) int {
	named, providers := map[[2]string]bool{}, map[string]bool{}
	for _, row := range rows {
		named[[2]string{row.Provider, row.Model}] = true
		providers[row.Provider] = true
	}
	n := 0
	for _, h := range old.Histories() {
		if providers[h.Provider] && !named[[2]string{h.Provider, h.Model}] {
			n++
		}
	}
	return n
}

func fieldChanges(before, after Version) (fields []FieldChange, jump bool) {
	a, b := facts(before), facts(after)
	names := maps.Clone(a)
	maps.Copy(names, b)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		x, hadIt := a[name]
		y, hasIt := b[name]
		if hadIt && hasIt && x.Cmp(y) == 0 {
			continue
		}
		f := FieldChange{Field: name}
		if hadIt {
			f.Old = x.String()
		}
		if hasIt {
			f.New = y.String()
		}
		ten := money.NewDecimal(10)
		jump = jump || hadIt && hasIt && (x.Cmp(y.Mul(ten)) > 0 || y.Cmp(x.Mul(ten)) > 0)
		fields = append(fields, f)
	}
	return fields, jump
}

// facts lists what a version says as named numbers.
func facts(v Version) map[string]money.Decimal {
	out := map[string]money.Decimal{}
	for _, r := range v.Rates {
		name := string(r.Meter)
		if r.AboveTokens > 0 {
			name += fmt.Sprintf(" above %d", r.AboveTokens)
		}
		if r.ServiceTier != "" {
			name += " " + r.ServiceTier
		}
		out[name] = r.USDPerUnit
	}
	for name, f := range v.Multipliers {
		out["multiplier "+name] = f
	}
	if v.Tier.Inclusive {
		out["threshold inclusive"] = money.NewDecimal(1)
	}
	if v.Tier.Graduated {
		out["threshold graduated"] = money.NewDecimal(1)
	}
	for name, n := range map[string]int64{"max input tokens": v.MaxInputTokens, "max output tokens": v.MaxOutputTokens} {
		if n > 0 {
			out[name] = money.NewDecimal(n)
		}
	}
	return out
}
