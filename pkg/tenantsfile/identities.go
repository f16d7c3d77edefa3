package tenantsfile

import "fmt"

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

// maxIdentity bounds an external identity with its kind: a SPIFFE id has at most 2048 bytes.
const maxIdentity = 2100
