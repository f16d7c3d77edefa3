package admission

import (
	"context"
	"errors"
	"time"

	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/pgstore"
	"github.com/weir-project/weir/services/admission/holdcache"
)

// errRecalled: what this replica remembers of a hold does not do for this call. It is to be made again by find.
var errRecalled = errors.New("admission: a remembered hold does not do")

// recallOr is find, but for a hold that this replica remembers it asks nobody (ADR 0014). Such a subject is recalled: all of
// it is as Redis has it, or had it when it ended, except that another replica may have grown the hold since. So whoever
// calls this gives errRecalled where an amount depends on what is held, or where the hold turns out to have ended.
func (s *Service) recallOr(ctx context.Context, tenant, id, receipt string) (subject, *pgstore.Row, error) {
	byReceipt, p := s.fromReceipt(tenant, id, receipt)
	if p != nil {
		return subject{}, nil, p
	}
	if subj, ok := s.recalled(tenant, id); ok && (byReceipt == nil || byReceipt.reservedAt.Equal(subj.reservedAt)) {
		return subj, nil, nil
	}
	return s.lookUp(ctx, tenant, id, byReceipt)
}

// recalled is an open hold as this replica has granted or extended it. Of another epoch than that of now it says nothing, nor
// of one that counts in sub-scopes: the store may have put it into the one that all names beyond the bound share, which
// only the hold itself says (heldIn).
func (s *Service) recalled(tenant, id string) (subject, bool) {
	t, err := s.of(tenant)
	if err != nil {
		return subject{}, false
	}
	h, ok := s.holds.Get(tenant, id)
	if !ok || h.Epoch != t.Epoch {
		return subject{}, false
	}
	c, err := decodeCall(h.Call)
	if err != nil || c.Scopes != "" {
		return subject{}, false
	}
	return subject{tenant: tenant, id: id, reservedAt: h.ReservedAt, epoch: h.Epoch, held: h.Held, call: c, rawCall: h.Call,
		day: h.Day, month: h.Month, fingerprint: h.Fingerprint, direct: true, recalled: true}, true
}

// remember notes a hold that was granted here.
func (s *Service) remember(h hold) {
	a := h.Answer
	s.holds.Put(holdcache.Hold{Tenant: h.Tenant, ID: h.ID, Call: h.rawCall, Epoch: h.Epoch, ReservedAt: a.ReservedAt, Ends: a.LeaseUntil,
		Day: a.Day, Month: a.Month, Held: a.Reserved, Fingerprint: h.Fingerprint})
}

// rememberExtended notes a hold that was extended here, wherever it was granted.
func (s *Service) rememberExtended(subj *subject, held admit.Estimate, ends time.Time) {
	s.holds.Put(holdcache.Hold{Tenant: subj.tenant, ID: subj.id, Call: subj.rawCall, Epoch: subj.epoch, ReservedAt: subj.reservedAt, Ends: ends,
		Day: subj.day, Month: subj.month, Held: held, Fingerprint: subj.fingerprint})
}

// forget is for a hold that has ended.
func (s *Service) forget(subj *subject) { s.holds.Delete(subj.tenant, subj.id, subj.reservedAt) }
