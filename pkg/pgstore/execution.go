package pgstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weir-project/weir/pkg/domain/money"
)

// Execution is what is stored about a root execution.
type Execution struct {
	Tenant     string
	Root       string
	Agent      string
	CostCenter string
	// MaxCost is in nano-dollars; 0 = no limit.
	MaxCost money.Nano
	// MaxDepth is the deepest depth, the root's own being 0; 0 = no limit.
	MaxDepth  int
	CreatedAt time.Time
	// ClosedAt is zero while the execution is open.
	ClosedAt time.Time
}

// LEAST ignores NULLs: the stricter of the two limits, and any limit is stricter than none. Starting a root again
// reopens it (a resume), with its totals and limits.
const startExecution = `INSERT INTO executions AS e (tenant_id, root_execution_id, agent_id, cost_center, max_cost_nanos, max_depth)
	VALUES ($1, $2, $3, $4, nullif($5::bigint, 0), nullif($6::integer, 0))
	ON CONFLICT (tenant_id, root_execution_id) DO UPDATE SET
	  max_cost_nanos = LEAST(e.max_cost_nanos, EXCLUDED.max_cost_nanos), max_depth = LEAST(e.max_depth, EXCLUDED.max_depth), closed_at = NULL
	RETURNING agent_id, cost_center, coalesce(max_cost_nanos, 0), coalesce(max_depth, 0), created_at`

// StartExecution stores a root, or resumes it: its limits become the stricter of what is stored and what e asks for,
// and everything else stays as it was first. It returns what holds.
func (s *Store) StartExecution(ctx context.Context, e Execution) (Execution, error) {
	var cost int64
	row := s.pool.QueryRow(ctx, startExecution, e.Tenant, e.Root, e.Agent, e.CostCenter, int64(e.MaxCost), e.MaxDepth)
	if err := row.Scan(&e.Agent, &e.CostCenter, &cost, &e.MaxDepth, &e.CreatedAt); err != nil {
		return Execution{}, fmt.Errorf("pgstore: start execution %s of %s: %w", e.Root, e.Tenant, err)
	}
	e.MaxCost, e.CreatedAt, e.ClosedAt = money.Nano(cost), e.CreatedAt.UTC(), time.Time{}
	return e, nil
}

const selectExecutions = `SELECT tenant_id, root_execution_id, agent_id, cost_center, coalesce(max_cost_nanos, 0), coalesce(max_depth, 0), created_at, closed_at
	FROM executions WHERE `

// Execution reads what is stored about a root; false if there is no such root.
func (s *Store) Execution(ctx context.Context, tenant, root string) (Execution, bool, error) {
	e, err := scanExecution(s.pool.QueryRow(ctx, selectExecutions+"tenant_id = $1 AND root_execution_id = $2", tenant, root))
	if errors.Is(err, pgx.ErrNoRows) {
		return Execution{}, false, nil
	}
	if err != nil {
		return Execution{}, false, fmt.Errorf("pgstore: execution %s of %s: %w", root, tenant, err)
	}
	return e, true, nil
}

// Executions lists executions that were made at or after since, closed ones too: they have limits, and starting them again
// resumes them. In the order of tenant and root, from the first one above (tenant, root), at most limit.
func (s *Store) Executions(ctx context.Context, since time.Time, tenant, root string, limit int) ([]Execution, error) {
	rows, err := s.pool.Query(ctx, selectExecutions+`created_at >= $1 AND (tenant_id, root_execution_id) > ($2, $3)
		ORDER BY tenant_id, root_execution_id LIMIT $4`, since, tenant, root, limit)
	if err != nil {
		return nil, fmt.Errorf("pgstore: executions: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Execution, error) { return scanExecution(row) })
	if err != nil {
		return nil, fmt.Errorf("pgstore: executions: %w", err)
	}
	return list, nil
}

func scanExecution(row pgx.Row) (Execution, error) {
	var e Execution
	var cost int64
	var closed *time.Time
	err := row.Scan(&e.Tenant, &e.Root, &e.Agent, &e.CostCenter, &cost, &e.MaxDepth, &e.CreatedAt, &closed)
	if closed != nil {
		e.ClosedAt = closed.UTC()
	}
	e.MaxCost, e.CreatedAt = money.Nano(cost), e.CreatedAt.UTC()
	return e, err
}

const closeExecution = `UPDATE executions SET closed_at = coalesce(closed_at, clock_timestamp())
	WHERE tenant_id = $1 AND root_execution_id = $2 RETURNING closed_at`

// CloseExecution records that a root is done; closing twice keeps the first time. False if there is no such root.
func (s *Store) CloseExecution(ctx context.Context, tenant, root string) (time.Time, bool, error) {
	var at time.Time
	err := s.pool.QueryRow(ctx, closeExecution, tenant, root).Scan(&at)
	if errors.Is(err, pgx.ErrNoRows) {
		return time.Time{}, false, nil
	}
	if err != nil {
		return time.Time{}, false, fmt.Errorf("pgstore: close execution %s of %s: %w", root, tenant, err)
	}
	return at.UTC(), true, nil
}
