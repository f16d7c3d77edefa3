package admission

import (
	"hash/fnv"
	"strconv"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/ladder"
	"github.com/weir-project/weir/pkg/gen/weirv1"
)

// What is told of a decision (weirv1.Decision, docs/reference/decisions.md). Ids are pure functions of the decision, so
// that a record which Kafka has twice, or which two replicas wrote, is known as one.

// teller tells of what was decided, once.
type teller struct {
	queue func(*weirv1.Decision)
	// sample: of so many admissions one is told of; 0 = of none.
	sample int64

	mu   sync.Mutex
	cuts map[string]string // by tenant, the id of the last cut that was told of: as many as there are tenants
}

// refused tells of a refusal, and where it is the first of a used up month, of the change to the last rung.
func (t *teller) refused(c caller, reservation string, asked call, r admit.Refusal, now time.Time) {
	decision := refusedDecision(c, reservation, asked, r, now)
	if cut := cutDecision(c, decision, r); cut != nil && t.isNews(c.tenant, cut.GetId()) {
		t.queue(cut)
	}
	t.queue(decision)
}

// isNews notes that a tenant's cut is told of; false if it was.
func (t *teller) isNews(tenant, cut string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cuts[tenant] == cut {
		return false
	}
	if t.cuts == nil {
		t.cuts = map[string]string{}
	}
	t.cuts[tenant] = cut
	return true
}

// admitted tells what an admission is news of: another rung than before, and, of those that are sampled, itself. A repeat
// is told of its rung again, since the first answer may never have arrived; the id is the same.
func (t *teller) admitted(c *caller, reservation string, asked *call, a *admit.Answer, repeat bool) {
	if a.Rung != a.RungBefore {
		t.queue(changedDecision(*c, reservation, *asked, *a))
	}
	if !repeat && isSampled(reservation, t.sample) {
		t.queue(admittedDecision(*c, reservation, *asked, *a, t.sample))
	}
}

// refusedDecision is a refusal. Its time is the store's, where the store decided.
func refusedDecision(c caller, reservation string, asked call, r admit.Refusal, now time.Time) *weirv1.Decision {
	if !r.At.IsZero() {
		now = r.At
	}
	named := reservation
	if named == "" { // of an execution
		named = asked.Root
	}
	d := decisionOf(c, weirv1.DecisionKind_DECISION_KIND_REFUSED, reservation, asked, now)
	d.Id = "refused:" + named + ":" + strconv.FormatInt(now.UnixNano(), 10)
	d.Code, d.Limit, d.Rung = string(r.Code), string(r.Limit), int32(rungOf(r, c.contract))
	d.ScopeKind, d.ScopeId = string(r.ScopeKind), r.ScopeID
	d.Trip = r.Trips() && asked.Root != ""
	if loc, err := c.contract.Location(); err == nil {
		if ends := r.ResetsAt(loc); !ends.IsZero() {
			d.ResetsAt = timestamppb.New(ends)
		}
	}
	d.NotifyBilling = usesUpMonth(r)
	return d
}

// usesUpMonth reports whether the tenant's own month refused.
func usesUpMonth(r admit.Refusal) bool {
	return r.Code == admit.TenantQuotaExceeded && r.Limit == admit.LimitMonth && r.ScopeKind == ""
}

// cutDecision is the change to the last rung that a refusal for the month is: one for a month and its ceiling, whoever is
// refused how often. nil for other refusals.
func cutDecision(c caller, refused *weirv1.Decision, r admit.Refusal) *weirv1.Decision {
	if !usesUpMonth(r) {
		return nil
	}
	day := ladder.At(r.DayUsed, c.contract.Ceilings.Day, ladder.Thresholds(c.contract.Ladder)) // what was admitted stood on
	return &weirv1.Decision{
		Kind: weirv1.DecisionKind_DECISION_KIND_RUNG_CHANGED, TenantId: c.tenant, ReservationId: refused.GetReservationId(),
		RootExecutionId: refused.GetRootExecutionId(), AgentId: refused.GetAgentId(), Limit: refused.GetLimit(), DecidedAt: refused.GetDecidedAt(),
		Id:   "rung:" + string(r.Limit) + ":" + strconv.FormatInt(int64(r.Window), 10) + ":" + c.contract.Ceilings.Month.String(),
		Rung: int32(ladder.Cut), PreviousRung: int32(day), ResetsAt: refused.GetResetsAt(), NotifyBilling: true,
	}
}

// changedDecision says that the tenant stands on another rung than its reservation before was told.
func changedDecision(c caller, reservation string, asked call, a admit.Answer) *weirv1.Decision {
	d := decisionOf(c, weirv1.DecisionKind_DECISION_KIND_RUNG_CHANGED, reservation, asked, a.ReservedAt)
	d.Id = "rung:" + reservation + ":" + strconv.FormatInt(a.ReservedAt.UnixNano(), 10)
	d.Rung, d.PreviousRung, d.Limit = int32(a.Rung), int32(a.RungBefore), string(admit.LimitDay)
	return d
}

// admittedDecision is one of the admissions that are told of; it stands for weight of them.
func admittedDecision(c caller, reservation string, asked call, a admit.Answer, weight int64) *weirv1.Decision {
	d := decisionOf(c, weirv1.DecisionKind_DECISION_KIND_ADMITTED, reservation, asked, a.ReservedAt)
	d.Id = "admitted:" + reservation + ":" + strconv.FormatInt(a.ReservedAt.UnixNano(), 10)
	d.Rung, d.SampleWeight = int32(a.Rung), weight
	return d
}

func decisionOf(c caller, kind weirv1.DecisionKind, reservation string, asked call, at time.Time) *weirv1.Decision {
	return &weirv1.Decision{Kind: kind, TenantId: c.tenant, ReservationId: reservation, RootExecutionId: asked.Root, AgentId: asked.Agent,
		DecidedAt: timestamppb.New(at)}
}

// isSampled picks one of n reservations by their ids, so that every replica picks the same.
func isSampled(reservation string, n int64) bool {
	if n <= 0 {
		return false
	}
	h := fnv.New64a()
	h.Write([]byte(reservation))
	return h.Sum64()%uint64(n) == 0
}
