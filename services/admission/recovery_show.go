package admission

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/pgstore"
	"github.com/weir-project/weir/services/admission/holdcache"
)

// showInterval is how often a recovery is looked for.
const showInterval = 300 * time.Millisecond

// showHolds shows, while the counters are made anew, the open holds that this replica remembers, as their owners would with
// their receipts. What is shown is counted from the end of the recovery on; a hold whose lease is over by then is ended by
// the reaper as any other, its estimate kept. The leader waits for every replica that is there (pgstore.Unshown).
func (s *Service) showHolds(ctx context.Context) error {
	for ctx.Err() == nil {
		// The row before anything else: what ended before the markers has a row by now, and what ends after them drops the
		// hold again when the journal is applied (see keepHold).
		if epoch, ok := s.epochs.Recovering(s.deps.Now()); ok && s.catalogs.loaded() {
			if err := s.showOnce(ctx, epoch.Epoch); err == nil {
				s.epochs.Shown(epoch.Epoch)
			} else if ctx.Err() == nil {
				s.logQuietly("show", "holds could not be shown to the recovery yet", err)
			}
		}
		pause(ctx, showInterval)
	}
	return nil
}

// showOnce shows what was not shown yet: answers to calls that began before the loss may still come.
func (s *Service) showOnce(ctx context.Context, epoch int64) error {
	for chunk := range slices.Chunk(s.holds.Unshown(epoch), loadChunk) {
		asked := make([]pgstore.Reservation, len(chunk))
		for i, h := range chunk {
			asked[i] = pgstore.Reservation{Tenant: h.Tenant, ID: h.ID, ReservedAt: h.ReservedAt}
		}
		read, cancel := s.bounded(ctx)
		ended, err := s.rows.Ended(read, asked)
		cancel()
		if err != nil {
			return err
		}
		var open []holdcache.Hold
		for i, h := range chunk {
			if ended[i] {
				s.holds.Delete(h.Tenant, h.ID, h.ReservedAt)
			} else {
				open = append(open, h)
			}
		}
		if err := eachOf(ctx, open, func(ctx context.Context, h holdcache.Hold) error { return s.showHold(ctx, epoch, h) }); err != nil {
			return err
		}
	}
	return nil
}

// showHold shows one hold, with what is left of its lease.
func (s *Service) showHold(ctx context.Context, epoch int64, h holdcache.Hold) error {
	now := s.deps.Now()
	contract := s.catalogs.tenants.InForce(h.Tenant, now)
	call, err := decodeCall(h.Call)
	if contract != nil && err == nil {
		subj := subject{tenant: h.Tenant, id: h.ID, reservedAt: h.ReservedAt, call: call, rawCall: h.Call,
			day: h.Day, month: h.Month, fingerprint: h.Fingerprint}
		pend, cancel := s.bounded(ctx)
		defer cancel()
		_, err = s.counters.Pend(pend, subj.pend(epoch, h.Held, max(h.Ends.Sub(now), time.Millisecond), limitsOf(contract)))
		if errors.Is(err, budgetstore.ErrUnavailable) || errors.Is(err, budgetstore.ErrEpoch) { // it may be taken at the next try
			return err
		}
	}
	s.holds.MarkShown(h, epoch)
	if contract == nil || err != nil { // its tenant is gone, too many are pending, or the counters are made
		s.metrics.recovery.unshown.Inc()
		return nil
	}
	s.metrics.recovery.shown.Inc()
	return nil
}
