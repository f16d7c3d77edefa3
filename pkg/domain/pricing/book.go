package pricing

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Book finds prices. It is immutable: With returns another book, so readers
// need no lock and a lookup never sees half an update.
type Book struct {
	byProvider map[string]map[string]History // provider and model as the source names them
}

// NewBook makes a book of histories; of two for the same model the later wins.
func NewBook(histories ...History) *Book {
	b := &Book{byProvider: map[string]map[string]History{}}
	for _, h := range histories {
		if b.byProvider[h.Provider] == nil {
			b.byProvider[h.Provider] = map[string]History{}
		}
		b.byProvider[h.Provider][h.Model] = h
	}
	return b
}

// With returns a book in which h replaces the history of its model. Its cost
// is a copy of one provider's index (a few hundred entries).
func (b *Book) With(h History) *Book {
	byProvider := maps.Clone(b.byProvider)
	models := maps.Clone(byProvider[h.Provider])
	if models == nil {
		models = map[string]History{}
	}
	models[h.Model] = h
	byProvider[h.Provider] = models
	return &Book{byProvider}
}

// History returns the history of a model by the source's own names.
func (b *Book) History(provider, model string) (History, bool) {
	h, ok := b.byProvider[provider][model]
	return h, ok
}

// Histories lists all, by provider and model.
func (b *Book) Histories() []History {
	var all []History
	for _, models := range b.byProvider {
		all = slices.AppendSeq(all, maps.Values(models))
	}
	slices.SortFunc(all, func(a, c History) int {
		return cmp.Or(cmp.Compare(a.Provider, c.Provider), cmp.Compare(a.Model, c.Model))
	})
	return all
}

// At finds the version in force for a model at an instant. provider is the
// name of an event or of the price source; model is exact, or has a date
// suffix that the book does not, which the flag model_alias reports. The
// error is an *UnpricedError.
func (b *Book) At(provider, model string, at time.Time) (Version, []string, error) {
	if v := b.exact(provider, model, at); v != nil {
		return *v, nil, nil
	}
	if undated, ok := withoutDate(model); ok {
		if v := b.exact(provider, undated, at); v != nil {
			return *v, []string{FlagModelAlias}, nil
		}
	}
	return Version{}, nil, &UnpricedError{Provider: provider, Model: model}
}

// exact is the version for a model by that very name, nil for none.
func (b *Book) exact(provider, model string, at time.Time) *Version {
	var room [maxNames]string
	for _, p := range bookNames(room[:0], provider) {
		models := b.byProvider[p]
		if v := models[model].inForce(at); v != nil {
			return v
		}
		if v := models[keyPrefix(p)+model].inForce(at); v != nil {
			return v
		}
	}
	return nil
}
