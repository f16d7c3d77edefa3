package catalog

import (
	"slices"
	"time"

	"github.com/weir-project/weir/pkg/domain/tenant"
)

// OfIdentity is the tenant whose contract in force lists an external identity ("slack:T0123", "jwt:org-7", …); false if
// there is none. One that two tenants list belongs to neither: whoever of them was billed, the other might have paid.
func (t *Tenants) OfIdentity(identity string, at time.Time) (id string, ok bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, candidate := range t.lists[identity] {
		c, known := t.by[candidate].At(at)
		if !known || c.Removed || !slices.Contains(c.Identities, identity) {
			continue
		}
		if ok {
			return "", false
		}
		id, ok = candidate, true
	}
	return id, ok
}

// index replaces what a tenant lists. It needs the lock.
func (t *Tenants) index(id string, old, now tenant.History) {
	for _, v := range old.Versions {
		for _, identity := range v.Identities {
			t.lists[identity] = slices.DeleteFunc(t.lists[identity], func(other string) bool { return other == id })
			if len(t.lists[identity]) == 0 {
				delete(t.lists, identity)
			}
		}
	}
	for _, v := range now.Versions {
		for _, identity := range v.Identities {
			if !slices.Contains(t.lists[identity], id) {
				t.lists[identity] = append(t.lists[identity], id)
			}
		}
	}
}
