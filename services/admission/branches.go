package admission

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/identity"
)

// A branch is a child agent that was started with a lower max_cost_usd than its parent has, with all its descendants (ADR
// 0013). Tokens carry the branches that a call counts in, with their limits; the budget store has what was spent in each.

// branchSlack is how long a branch outlives its tokens, for calls that are open then.
const branchSlack = time.Hour

func newBranch(random io.Reader) (string, error) {
	raw := make([]byte, 10)
	if _, err := io.ReadFull(random, raw); err != nil {
		return "", fmt.Errorf("admission: randomness for a branch id: %w", err)
	}
	return "b_" + hex.EncodeToString(raw), nil
}

// startBranch makes the branch that begins with a child, or looks whether the root still runs where none does.
func (s *Service) startBranch(ctx context.Context, t budgetstore.Tenant, parent, child identity.Execution) error {
	own, began := child.OwnBranch(parent)
	if !began {
		known, err := s.counters.Execution(ctx, t, parent.Root)
		if err != nil && !errors.Is(err, budgetstore.ErrNoExecution) {
			return err
		}
		return notRevoked(known)
	}
	switch err := s.counters.StartBranch(ctx, t, parent.Root, own, child.ExpiresAt.Sub(s.deps.Now())+branchSlack); {
	case errors.Is(err, budgetstore.ErrRevoked):
		return notRevoked(budgetstore.ExecutionState{Revoked: true})
	case errors.Is(err, budgetstore.ErrBranches):
		return invalid("max_cost_usd", fmt.Sprintf("max_cost_usd: %d children with a lower limit of their own live already, which is as many as a tenant may have; "+
			"start this one without, or wait until the tokens of others have ended.", budgetstore.MaxBranches))
	default:
		return err
	}
}

// branchText is how a hold keeps branches: id, nano-dollars, id, nano-dollars.
func branchText(list []admit.Branch) string {
	if len(list) == 0 {
		return ""
	}
	var b []byte
	for _, branch := range list {
		b = append(append(b, branch.ID...), ' ')
		b = append(strconv.AppendInt(b, int64(branch.MaxCost), 10), ' ')
	}
	return string(b[:len(b)-1])
}

// branches are those that the call counts in.
func (c call) branches() []admit.Branch {
	if c.Branches == "" {
		return nil
	}
	var out []admit.Branch
	words := strings.Fields(c.Branches)
	for i := 0; i+1 < len(words); i += 2 {
		n, err := strconv.ParseInt(words[i+1], 10, 64)
		if err != nil { // not ours
			return nil
		}
		out = append(out, admit.Branch{ID: words[i], MaxCost: money.Nano(n)})
	}
	return out
}

// branchIDs are their names, as the event of a reservation has them.
func (c call) branchIDs() []string {
	var out []string
	for _, b := range c.branches() {
		out = append(out, b.ID)
	}
	return out
}
