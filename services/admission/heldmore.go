package admission

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/pgstore"
)

// heldMore corrects what a settle says of its hold, where that was grown elsewhere and only whoever ends it in Redis finds
// out: the settle's own script as a rule; where Redis was away then, a repeat of the settle, the journal's reader or the
// reaper. Nothing that is charged depends on it, nor on the event's held_nanos, which stays. It gives the answer that holds now.
func (s *Service) heldMore(ctx context.Context, row pgstore.Row, held money.Nano) []byte {
	told, err := tellHeld(row.Answer, held-row.HeldNanos)
	if err == nil {
		row.Answer, row.HeldNanos = told, held
		write, cancel := s.bounded(ctx)
		defer cancel()
		err = s.rows.SetHeld(write, row)
	}
	if err != nil { // a repeat is told the first figures
		s.trouble(codeInternal, err)
	}
	s.metrics.heldMore.Inc()
	return row.Answer
}

// tellHeld is a settle's answer where more was held than it says.
func tellHeld(answer []byte, more money.Nano) ([]byte, error) {
	var body settleAnswer
	if err := json.Unmarshal(answer, &body); err != nil {
		return nil, fmt.Errorf("admission: an answer to a settle: %w", err)
	}
	body.ReservedUSD = body.ReservedUSD.Add(more.USD())
	if body.OverageUSD = body.OverageUSD.Sub(more.USD()); body.OverageUSD.Sign() < 0 {
		body.OverageUSD = money.USD{}
	}
	return append(body.appendJSON(make([]byte, 0, 512)), '\n'), nil
}

// heldMoreOf corrects the row of a reservation whose hold was ended by what the journal says.
func (s *Service) heldMoreOf(ctx context.Context, tenant string, e budgetstore.JournalEntry) {
	read, cancel := s.bounded(ctx)
	defer cancel()
	row, _, err := s.rows.Get(read, tenant, e.ReservationID)
	switch {
	case err != nil:
		s.trouble(codeInternal, err)
	case row.Outcome == pgstore.Settled && row.ReservedAt.Equal(e.ReservedAt) && e.Held > row.HeldNanos:
		s.heldMore(ctx, row, e.Held)
	}
}
