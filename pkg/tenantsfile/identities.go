package tenantsfile

import (
	"fmt"

	"github.com/weir-project/weir/pkg/domain/tenant"
)

// shared reports identities that are empty, too long, or listed by two tenants: admission would map those to neither.
func (f File) shared() []error {
	var errs []error
	owner := map[string]string{}
	for _, id := range f.IDs() {
		for _, identity := range f.Contracts[id].Identities {
			if identity[len(identity)-1] == ':' || len(identity) > maxIdentity {
				errs = append(errs, fmt.Errorf("tenant %q: identities: %.60q is empty or longer than %d bytes", id, identity, maxIdentity))
			}
			if other, taken := owner[identity]; taken && other != id {
				errs = append(errs, fmt.Errorf("tenant %q: identities: %s is tenant %q's already", id, identity, other))
			}
			owner[identity] = id
		}
	}
	return errs
}

// Taken reports identities of the file that a tenant outside it lists in its contract in force: admission would map those
// to neither. others are the contracts that stay beside the file; removed ones, and tenants of the file, do not count.
func (f File) Taken(others map[string]tenant.Contract) error {
	owner := map[string]string{}
	for id, c := range others {
		if _, replaced := f.Contracts[id]; replaced || c.Removed {
			continue
		}
		for _, identity := range c.Identities {
			owner[identity] = max(owner[identity], id) // the same one each time
		}
	}
	var errs []error
	for _, id := range f.IDs() {
		for _, identity := range f.Contracts[id].Identities {
			if other, taken := owner[identity]; taken {
				errs = append(errs, fmt.Errorf("tenant %q: identities: %s is tenant %q's already, which is not in this file", id, identity, other))
			}
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return list(errs)
}

// maxIdentity bounds an external identity with its kind: a SPIFFE id has at most 2048 bytes.
const maxIdentity = 2100
