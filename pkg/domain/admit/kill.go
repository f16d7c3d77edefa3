package admit

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Bounds of the kill switch. A scope that was switched off is kept, so that an older "on" cannot come back; MaxKills
// bounds both together, and the tool that writes them refuses beyond it.
const (
	MaxKills      = 1000
	MaxKillReason = 256 // bytes
	maxKillScope  = 8 + 256
)

// KillScope names what an operator may stop: KillAll, or one tenant, provider or model.
type KillScope string

// KillAll stops every call of every tenant.
const KillAll KillScope = "all"

// KillTenant is the scope of one tenant.
func KillTenant(id string) KillScope { return KillScope("tenant:" + id) }

// KillProvider is the scope of one provider, by the name that reservations give it.
func KillProvider(name string) KillScope { return KillScope("provider:" + name) }

// KillModel is the scope of one model, whoever provides it.
func KillModel(name string) KillScope { return KillScope("model:" + name) }

// Validate refuses what is no scope: nothing that does not mean something may be kept in the set.
func (s KillScope) Validate() error {
	kind, name, named := strings.Cut(string(s), ":")
	known := kind == "tenant" || kind == "provider" || kind == "model"
	if s == KillAll || known && named && name != "" && len(s) <= maxKillScope && !strings.ContainsFunc(name, func(r rune) bool { return r < 0x21 || r == 0x7f }) {
		return nil
	}
	return fmt.Errorf("%w: kill scope %.40q", ErrInvalid, string(s))
}

// Kill is the newest word about one scope (docs/runbooks/kill-switch.md).
type Kill struct {
	Scope KillScope
	On    bool
	// Reason is for people; at most MaxKillReason bytes.
	Reason string
	// Version is the Unix microsecond of the change, above the version it replaces.
	Version int64
}

// At is when it was switched.
func (k Kill) At() time.Time { return time.UnixMicro(k.Version).UTC() }

// Validate refuses a kill that could not be kept or compared.
func (k Kill) Validate() error {
	var errs []error
	if k.Version <= 0 {
		errs = append(errs, fmt.Errorf("%w: kill version %d", ErrInvalid, k.Version))
	}
	if len(k.Reason) > MaxKillReason {
		errs = append(errs, fmt.Errorf("%w: a kill's reason has at most %d bytes", ErrInvalid, MaxKillReason))
	}
	return errors.Join(append(errs, k.Scope.Validate())...)
}

// Newer reports whether k replaces old. The higher version wins, whichever way each of them came (topic, mirror) and in
// whatever order; of two equal ones that differ, the one that stops: fail closed.
func (k Kill) Newer(old Kill) bool {
	if k.Version != old.Version {
		return k.Version > old.Version
	}
	return k.On && !old.On
}

// Kills is a set of kills by scope. It never changes: With returns another. The zero value is empty.
type Kills struct{ by map[KillScope]Kill }

// With returns the set with k in it, and whether that is another set.
func (s Kills) With(k Kill) (Kills, bool) {
	if old, known := s.by[k.Scope]; known && !k.Newer(old) {
		return s, false
	}
	by := maps.Clone(s.by)
	if by == nil {
		by = map[KillScope]Kill{}
	}
	by[k.Scope] = k
	return Kills{by}, true
}

// Get is the newest word about a scope.
func (s Kills) Get(scope KillScope) (Kill, bool) {
	k, ok := s.by[scope]
	return k, ok
}

// List is every kill by scope, those that are off too.
func (s Kills) List() []Kill {
	return slices.SortedFunc(maps.Values(s.by), func(a, b Kill) int { return strings.Compare(string(a.Scope), string(b.Scope)) })
}

// Empty reports whether nothing was ever switched, so that nothing needs to be looked up.
func (s Kills) Empty() bool { return len(s.by) == 0 }

// Stops returns the widest kill that stops a call of tenant to provider with any of the models; the empty ones are not
// asked for. It costs a few look-ups, whatever the size of the set.
func (s Kills) Stops(tenant string, providers, models []string) (Kill, bool) {
	if s.Empty() {
		return Kill{}, false
	}
	scopes := append(make([]KillScope, 0, 8), KillAll, KillTenant(tenant))
	for _, p := range providers {
		scopes = append(scopes, KillProvider(p))
	}
	for _, m := range models {
		scopes = append(scopes, KillModel(m))
	}
	for _, scope := range scopes {
		if k, known := s.by[scope]; known && k.On {
			return k, true
		}
	}
	return Kill{}, false
}
