package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/pgstore"
)

// treeLimits is what Postgres and Redis know of an execution, beside the ledger.
type treeLimits struct {
	rootAgent string
	max       *string           // USD; nil = none, or not known
	branches  map[string]string // limit in USD by branch, as far as Redis has them
	missing   []string          // what could not be learnt, and why
}

// storesWithin bounds the wait for stores that a tree can do without.
const storesWithin = 5 * time.Second

// limitsOf asks Postgres for the root and Redis for the branches. A store that is away makes the tree poorer, and is named.
func (a *app) limitsOf(ctx context.Context, f treeFacts, root string) treeLimits {
	ctx, cancel := context.WithTimeout(ctx, storesWithin)
	defer cancel()
	out := treeLimits{branches: map[string]string{}}
	row, err := a.rootOf(ctx, f.tenant, root, &out)
	if err != nil {
		out.missing = append(out.missing, fmt.Sprintf("the root's own agent, and all limits: %v", err))
		return out
	}
	if len(f.branches) == 0 {
		return out
	}
	if err := a.branchLimits(ctx, f.tenant, row, f.branches, out.branches); err != nil {
		out.missing = append(out.missing, fmt.Sprintf("limits of branches: %v", err))
	} else if n := len(f.branches) - len(out.branches); n > 0 {
		out.missing = append(out.missing, fmt.Sprintf("the limits of %d branches: Redis keeps them for as long as their tokens live, and forgets them when it is lost", n))
	}
	return out
}

// rootOf reads what Postgres has of the execution, and the epoch in which Redis is read.
func (a *app) rootOf(ctx context.Context, tenant, root string, out *treeLimits) (row pgstore.RedisEpoch, err error) {
	address, err := a.address("postgres", "WEIR_POSTGRES")
	if err != nil {
		return row, err
	}
	pg, err := pgstore.Open(ctx, address)
	if err != nil {
		return row, awayFrom("postgres", err)
	}
	defer pg.Close()
	x, known, err := pg.Execution(ctx, tenant, root)
	if err != nil {
		return row, awayFrom("postgres", err)
	}
	if known {
		out.rootAgent = x.Agent
	}
	if x.MaxCost > 0 {
		out.max = dollarText(x.MaxCost)
	}
	if row, _, err = pg.EpochRow(ctx); err != nil {
		return row, awayFrom("postgres", err)
	}
	return row, nil
}

// branchLimits adds the limits that Redis has.
func (a *app) branchLimits(ctx context.Context, tenant string, row pgstore.RedisEpoch, ids []string, to map[string]string) error {
	if row.Layout != budgetstore.Layout {
		return otherLayout(row.Layout)
	}
	address, err := a.address("redis", "WEIR_REDIS")
	if err != nil {
		return err
	}
	store, err := budgetstore.Open(ctx, address, budgetstore.Options{})
	if err != nil {
		return awayFrom("redis", err)
	}
	defer func() { _ = store.Close() }()
	for _, id := range ids {
		switch x, err := store.Branch(ctx, budgetstore.Tenant{ID: tenant, Epoch: row.Epoch}, id); {
		case err == nil && x.Limits.MaxCost > 0: // one that came back after a loss has none before its next call
			to[id] = *dollarText(x.Limits.MaxCost)
		case err == nil, errors.Is(err, budgetstore.ErrNoExecution), errors.Is(err, budgetstore.ErrLost), errors.Is(err, budgetstore.ErrEpoch):
		default:
			return awayFrom("redis", err)
		}
	}
	return nil
}

func dollarText(n money.Nano) *string {
	s := n.USD().String()
	return &s
}
