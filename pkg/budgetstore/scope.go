package budgetstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/window"
)

// ScopeRef names a sub-scope where its ceilings do not matter.
type ScopeRef struct {
	window.Scope
	// Star: the plan has it by its "*", so it counts among the bounded ones.
	Star bool
}

// scopeName appends a sub-scope as the scripts name it: length byte, a letter
// for the kind, id.
func scopeName(b []byte, kind window.ScopeKind, id string) []byte {
	b = append(b, byte(1+len(id)), kind.Letter())
	return append(b, id...)
}

func scopeOf(name string) window.Scope {
	if name == "" {
		return window.Scope{}
	}
	for _, kind := range window.ScopeKinds() {
		if kind.Letter() == name[0] {
			return window.Scope{Kind: kind, ID: name[1:]}
		}
	}
	return window.Scope{}
}

// unknown reports whether no reservation can count in it: its name is none that Redis could hold.
func (r ScopeRef) unknown() bool { return r.Scope != (window.Scope{}) && !nameable(r.ID) }

// ref is the sub-scope as journal.lua and external.lua take it; "" for none.
func (r ScopeRef) ref() (string, error) {
	if r.Scope == (window.Scope{}) {
		return "", nil
	}
	if !r.Kind.Known() && r.Kind != window.Branch {
		return "", fmt.Errorf("%w: sub-scope of kind %q", admit.ErrInvalid, r.Kind)
	}
	if err := checkID("sub-scope", r.ID); err != nil {
		return "", err
	}
	mark := "."
	if r.Star {
		mark = "*"
	}
	return mark + string(rune(r.Kind.Letter())) + r.ID, nil
}

func scopeRefs(list []ScopeRef) ([]byte, error) {
	var b []byte
	for _, r := range list {
		ref, err := r.ref()
		if err != nil {
			return nil, err
		}
		b = append(append(b, byte(len(ref))), ref...)
	}
	return b, nil
}

// scopes are reserve.lua's last argument: branches, which lua/branched.lua
// reads, and sub-scopes; nil without any.
func (r *Request) scopes() []byte {
	if len(r.Scopes)+len(r.Execution.Branches) == 0 {
		return nil
	}
	b := []byte{byte(len(r.Execution.Branches))}
	for _, branch := range r.Execution.Branches {
		b = append(doubles(b, int64(branch.MaxCost)), byte(len(branch.ID)))
		b = append(b, branch.ID...)
	}
	for _, scope := range r.Scopes {
		b = doubles(b, int64(scope.Minute.Cap), int64(scope.Day.Cap), int64(scope.Month.Cap))
		star := byte(0)
		if scope.Star {
			star = 1
		}
		b = scopeName(append(b, star), scope.Kind, scope.ID)
	}
	return b
}

// scopeNames reads the sub-scopes that a hold counts in, and the branches.
func (f *figures) scopeNames() (list []window.Scope, branches []string) {
	n := int(f.byte())
	if n > admit.MaxScopes+admit.MaxBranches {
		f.short = true
		return nil, nil
	}
	for range n {
		name := string(f.bytes(int(f.byte())))
		if id, ok := strings.CutPrefix(name, string(window.Branch.Letter())); ok {
			branches = append(branches, id)
		} else {
			list = append(list, scopeOf(name))
		}
	}
	return list, branches
}

// ScopeBudget reads the counters of a sub-scope as Budget does the tenant's;
// all zero where nothing has counted in it. Of its figures only the windows of
// dollars, the requests and the tokens mean anything.
func (s *Store) ScopeBudget(ctx context.Context, t Tenant, scope window.Scope, c admit.Calendar, l admit.Limits) (Budget, error) {
	if _, err := (ScopeRef{Scope: scope}).ref(); err != nil {
		return Budget{}, err
	}
	b, err := s.budget(ctx, t.Epoch, key(t, "c:"+string(rune(scope.Kind.Letter()))+":"+scope.ID), c, l)
	if errors.Is(err, ErrLost) || errors.Is(err, ErrEpoch) {
		return Budget{}, nil
	}
	return b, err
}
