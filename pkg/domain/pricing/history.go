package pricing

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// MaxVersions bounds the versions of one history: it travels as one record.
const MaxVersions = 500

// History is all versions of one provider and model, past and coming. It is a
// value: Add returns a new one.
type History struct {
	Provider, Model string
	Versions        []Version // by EffectiveFrom, then PublishedAt
}

// Add returns h with v (sealed by this call). A version that is there already
// with the same publication is not added twice. Errors wrap ErrInvalid.
func (h History) Add(v Version) (History, error) {
	v, err := v.Seal()
	if err != nil {
		return History{}, err
	}
	if h.Provider == "" && h.Model == "" {
		h.Provider, h.Model = v.Provider, v.Model
	}
	if h.Provider != v.Provider || h.Model != v.Model {
		return History{}, fmt.Errorf("%w: %s %s into the history of %s %s", ErrInvalid, v.Provider, v.Model, h.Provider, h.Model)
	}
	if len(h.Versions) >= MaxVersions {
		return History{}, fmt.Errorf("%w: %s %s has %d versions", ErrInvalid, h.Provider, h.Model, MaxVersions)
	}
	same := func(o Version) bool { return o.ID == v.ID && o.PublishedAt.Equal(v.PublishedAt) }
	if slices.ContainsFunc(h.Versions, same) {
		return h, nil
	}
	h.Versions = append(slices.Clone(h.Versions), v)
	slices.SortStableFunc(h.Versions, func(a, b Version) int {
		return cmp.Or(a.EffectiveFrom.Compare(b.EffectiveFrom), a.PublishedAt.Compare(b.PublishedAt), cmp.Compare(a.ID, b.ID))
	})
	return h, nil
}

// At returns the version in force at an instant: the last one effective by
// then; of two effective from the same instant, the one published later.
func (h History) At(at time.Time) (Version, bool) {
	if v := h.inForce(at); v != nil {
		return *v, true
	}
	return Version{}, false
}

// inForce is At without a copy, nil for none.
func (h History) inForce(at time.Time) *Version {
	for i := len(h.Versions) - 1; i >= 0; i-- {
		if v := &h.Versions[i]; !v.EffectiveFrom.After(at) {
			return v
		}
	}
	return nil
}
