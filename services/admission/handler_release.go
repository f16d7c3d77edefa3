package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/pgstore"
)

// release gives a reservation back whose call was never made, or failed before any token:
// POST /v1/reservations/{id}/release.
func (s *Service) release(ctx context.Context, c caller, id string, req releaseRequest) (answer, error) {
	if p := checkShape("id", id); p != nil {
		return answer{}, p
	}

	// load
	subj, row, err := s.find(ctx, c.tenant, id, string(req.Receipt))
	if err != nil {
		return answer{}, err
	}

	// decide, save: Postgres decides between this and settle and expiry
	body, err := s.saveRelease(ctx, &subj, row)
	if err == nil {
		s.forget(&subj)
	}
	return answer{status: http.StatusOK, body: body}, err
}

func (s *Service) saveRelease(ctx context.Context, subj *subject, known *pgstore.Row) ([]byte, error) {
	if known != nil {
		return s.meetRelease(ctx, subj, *known)
	}
	zero := money.USD{}
	body, _ := json.Marshal(stateAnswer{ReservationID: subj.id, State: string(pgstore.Released), ReservedAt: clock(subj.reservedAt),
		ReservedUSD: subj.held.Nanos.USD(), CostUSD: &zero}) // strings and decimals always encode
	row := subj.row(pgstore.Released)
	row.Answer = append(body, '\n')
	write, cancel := s.bounded(ctx)
	defer cancel()
	stored, done, err := s.rows.End(write, row, nil)
	if err != nil {
		return nil, err
	}
	if !done {
		return s.meetRelease(ctx, subj, stored)
	}
	s.applyRelease(ctx, subj)
	return row.Answer, nil
}

// meetRelease is a release of a reservation that has ended: again is fine, after anything else it is too late. Usage
// beats release.
func (s *Service) meetRelease(ctx context.Context, subj *subject, row pgstore.Row) ([]byte, error) {
	switch {
	case !row.ReservedAt.Equal(subj.reservedAt):
		s.freeHold(ctx, subj)
		return nil, conflict(row, usedAgain)
	case row.Outcome == pgstore.Released && row.Late == nil:
		s.applyRelease(ctx, subj) // a first release may have missed Redis
		return row.Answer, nil
	default:
		return nil, conflict(row, howEnded(row))
	}
}

// applyRelease gives the hold back in Redis. What Redis misses now, the reaper repeats when the lease runs out.
func (s *Service) applyRelease(ctx context.Context, subj *subject) {
	if epoch, making := s.epochs.Recovering(s.deps.Now()); making {
		s.forgetHold(ctx, epoch, subj)
		return
	}
	if !subj.direct {
		return
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	if _, err := s.counters.Release(ctx, subj.ref()); err != nil {
		s.metrics.missed.Inc()
		s.trouble(admit.StoreUnavailable, fmt.Errorf("release script of a committed release: %w", err))
	}
}
