package admission

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/ladder"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/pgstore"
)

// state says how a reservation stands: GET /v1/reservations/{id}.
func (s *Service) state(ctx context.Context, c caller, id string) (answer, error) {
	if p := checkShape("id", id); p != nil {
		return answer{}, p
	}
	t, err := s.of(c.tenant)
	if err != nil {
		return answer{}, err
	}
	h, holdErr := s.hold(ctx, t, id)
	if holdErr == nil {
		return answer{status: http.StatusOK, body: openState(h)}, nil
	}
	read, done := s.bounded(ctx)
	defer done()
	row, ended, err := s.rows.Get(read, c.tenant, id)
	switch {
	case err != nil:
		return answer{}, err
	case ended:
		return answer{status: http.StatusOK, body: endState(row)}, nil
	case errors.Is(holdErr, budgetstore.ErrNoHold):
		return answer{}, problem(admit.ReservationNotFound, "No such reservation is open or remembered.")
	default:
		return answer{}, holdErr
	}
}

func openState(h budgetstore.Hold) stateAnswer {
	out := stateAnswer{ReservationID: h.ID, State: stateOpen, ReservedAt: clock(h.Answer.ReservedAt), ExpiresAt: clock(h.LeaseUntil),
		ReservedUSD: h.Held.Nanos.USD()}
	if h.State == budgetstore.HoldExpiring {
		out.State = stateExpiring
	}
	return out
}

func endState(row pgstore.Row) stateAnswer {
	out := stateAnswer{ReservationID: row.ReservationID, State: stateOf(row), ReservedAt: clock(row.ReservedAt),
		ReservedUSD: row.HeldNanos.USD(), Estimated: row.Estimated, EventID: row.EventID}
	body := row.Answer
	if row.Late != nil {
		out.Late, out.EventID, body = true, row.Late.EventID, row.Late.Answer
	}
	var told struct {
		CostUSD *money.USD `json:"cost_usd"`
	}
	if json.Unmarshal(body, &told) == nil { // an expired row was answered to nobody
		out.CostUSD = told.CostUSD
	}
	return out
}

// budget is the caller's own account: GET /v1/budget.
func (s *Service) budget(ctx context.Context, c caller, req budgetRequest) (answer, error) {
	if p := req.check(); p != nil {
		return answer{}, p
	}
	t, err := s.of(c.tenant)
	if err != nil {
		return answer{}, err
	}
	loc, err := s.zones.Of(c.contract)
	if err != nil {
		return answer{}, problem(codeInternal, "The tenant's time zone is not known here.")
	}
	calendar := admit.CalendarAt(s.deps.Now(), loc)
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	var b budgetstore.Budget
	err = s.onTenant(ctx, t, func() (err error) {
		b, err = s.counters.Budget(ctx, t, calendar, limitsOf(c.contract))
		if err == nil && !b.Ready {
			err = budgetstore.ErrNotReady
		}
		return err
	})
	if err != nil {
		return answer{}, err
	}
	body := budgetOf(c, b, calendar, loc)
	if body.Scopes, err = s.scopeLines(ctx, t, c, req, calendar, loc); err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, body: body}, nil
}

func budgetOf(c caller, b budgetstore.Budget, calendar admit.Calendar, loc *time.Location) budgetAnswer {
	k, l := c.contract, limitsOf(c.contract)
	minute := windowOf(k.Ceilings.Minute, b.Minute, l.Minute.Rung(b.Minute.Used()))
	day := windowOf(k.Ceilings.Day, b.Day, l.DayRung(b.Day.Used()))
	month := windowOf(k.Ceilings.Month, b.Month, l.Month.Rung(b.Month.Used()))
	minute.HeldUSD = nil
	day.Soft, day.ResetsAt, month.ResetsAt = k.SoftDay, clock(calendar.Windows.DayEnds), monthResets(k, b, calendar, loc)
	rung := max(minute.Rung, day.Rung, month.Rung)
	percent := ladder.Percent(b.Day.Used(), k.Ceilings.Day)
	text := told(k, c.language, rung, percent, len(k.Actions.SavingModels) > 0)
	message := text.Message()
	switch ladder.Cut {
	case month.Rung: // it frees last
		message = text.Cut(admit.LimitMonth)
	case day.Rung:
		message = text.Cut(admit.LimitDay)
	case minute.Rung:
		message = text.Cut(admit.LimitMinute)
	}
	return budgetAnswer{
		TenantID: c.tenant, AsOf: clock(b.At), Rung: rung, Mode: rung.Mode(), PercentUsed: percent, Message: message,
		Timezone: zone(k), Steps: stepsOf(k),
		Remaining: remaining{minute.RemainingUSD, day.RemainingUSD, month.RemainingUSD},
		Windows:   map[string]windowLine{"minute": minute, "day": day, "month": month},
		Limits: map[string]limitLine{
			string(admit.LimitRequests):     limitOf(k.Limits.RequestsPerMinute, b.Requests),
			string(admit.LimitInputTokens):  limitOf(k.Limits.InputTokensPerMinute, b.InputTokens),
			string(admit.LimitOutputTokens): limitOf(k.Limits.OutputTokensPerMinute, b.OutputTokens),
			string(admit.LimitConcurrency):  limitOf(k.Limits.Concurrency, b.Concurrency),
		},
	}
}

// monthResets is when the month frees by time: its end, or of the last 30 days when the next day leaves that was used, and
// where the ceiling is used up, the one with which there is room again; "" where nothing of them is used.
func monthResets(k *tenant.Contract, b budgetstore.Budget, calendar admit.Calendar, loc *time.Location) string {
	switch {
	case k.Month != tenant.MonthRolling30:
		return clock(calendar.Windows.MonthEnds)
	case b.Leaves == 0:
		return ""
	default:
		return clock(admit.LeavesAt(b.Leaves, loc))
	}
}

// stepsOf is where the rungs of the day begin.
func stepsOf(k *tenant.Contract) []stepLine {
	from := ladder.Steps(k.Ceilings.Day, ladder.Thresholds(k.Ladder))
	steps := make([]stepLine, len(from))
	for i := range steps {
		rung := ladder.Caching + ladder.Rung(i)
		steps[i] = stepLine{Rung: rung, Mode: rung.Mode(), Percent: k.Ladder[i], FromUSD: from[i].USD()}
	}
	return steps
}

func zone(k *tenant.Contract) string {
	if k.Timezone == "" {
		return "UTC"
	}
	return k.Timezone
}

func windowOf(ceiling money.Nano, w budgetstore.WindowUse, rung ladder.Rung) windowLine {
	used, held := w.Used(), w.Held.USD()
	return windowLine{CeilingUSD: ceiling.USD(), UsedUSD: used.USD(), OwnUSD: w.Own.USD(), ExternalUSD: w.External.USD(), HeldUSD: &held,
		RemainingUSD: nanoUSD(ceiling - used), PercentUsed: ladder.Percent(used, ceiling), Rung: rung}
}

func limitOf(limit, used int64) limitLine {
	if limit <= 0 {
		return limitLine{Used: used}
	}
	left := max(0, limit-used)
	return limitLine{Limit: &limit, Used: used, Remaining: &left}
}
