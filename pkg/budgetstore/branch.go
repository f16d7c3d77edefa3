package budgetstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-project/weir/pkg/domain/admit"
)

// MaxBranches bounds how many branches of a tenant's executions live at a time. None is started above it; after a recovery
// those that were made before take their places again with their next call, so there may be more until enough have ended.
const MaxBranches = 16384

var (
	// ErrBranches: as many branches live as the tenant may have.
	ErrBranches = errors.New("budget store: too many branches of executions")
	// ErrRevoked: the root execution was ended.
	ErrRevoked = errors.New("budget store: the execution was revoked")
)

// StartBranch makes a branch of a root execution, nothing spent in it, that lives so long: no call may bring it later.
// ErrRevoked where the root was ended, ErrBranches at MaxBranches; then nothing is made. The id is new.
func (s *Store) StartBranch(ctx context.Context, t Tenant, root string, b admit.Branch, life time.Duration) error {
	if err := errors.Join(checkID("root execution", root), checkID("branch", b.ID), admit.Execution{Branches: []admit.Branch{b}}.Validate()); err != nil {
		return err
	}
	if life <= 0 {
		return fmt.Errorf("%w: a branch that lives %s", admit.ErrInvalid, life)
	}
	code, f, err := s.run(ctx, "branch", s.scripts.branch, []string{key(t, "s")},
		packed(nil, t.Epoch, int64(b.MaxCost), millis(life), MaxBranches), b.ID, root, s.at())
	switch {
	case err != nil:
		return err
	case code == replyElse:
		return ErrBranches
	case f.byte() != 0:
		return ErrRevoked
	}
	return f.err("branch")
}

// Branch reads a branch; ErrNoExecution if it is not known.
func (s *Store) Branch(ctx context.Context, t Tenant, id string) (ExecutionState, error) {
	if err := checkID("branch", id); err != nil {
		return ExecutionState{}, err
	}
	return s.callExecution(ctx, t, branchName(id), "show", admit.ExecutionLimits{})
}

// branchName is a branch where the scripts take roots: no id has a brace.
func branchName(id string) string { return "{" + id }
