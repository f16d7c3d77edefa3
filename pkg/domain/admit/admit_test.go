package admit

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-project/weir/pkg/domain/ladder"
	"github.com/weir-project/weir/pkg/domain/money"
)

// roomy are limits of 100 everywhere.
func roomy() Limits {
	return Limits{Requests: 100, InputTokens: 100, OutputTokens: 100, Concurrency: 100, Minute: Hard(100), Day: Hard(100), Month: Hard(100),
		Ladder: ladder.Default()}
}

func TestDecide(t *testing.T) {
	full := Usage{Requests: 100, InputTokens: 100, OutputTokens: 100, Running: 100, Minute: 100, Day: 100, Month: 100,
		Execution: ExecutionUsage{Spent: 100, Calls: 100, Revoked: true}}
	x := Execution{Root: "root", Depth: 5, ExecutionLimits: ExecutionLimits{MaxCost: 100, MaxDepth: 4, MaxCalls: 100}}
	e := Estimate{Nanos: 101, InputTokens: 101, OutputTokens: 101}
	// Everything is wrong at first; each row mends what the row before reported.
	l, u := roomy(), full
	l.OpenExecutions, u.OpenExecutions = 3, 3
	for _, step := range []struct {
		code  Code
		limit Limit
		rung  ladder.Rung
		mend  func()
	}{
		{ExecutionRevoked, NoLimit, 4, func() { u.Execution.Revoked = false }},
		{EstimateExceedsLimit, LimitMonth, 4, func() { l.Month = Hard(150) }},
		{EstimateExceedsLimit, LimitDay, 4, func() { l.Day = Ceiling{Limit: 100, Cap: 150} }},
		{EstimateExceedsLimit, LimitMinute, 3, func() { l.Minute = Hard(150) }},
		{EstimateExceedsLimit, LimitInputTokens, 3, func() { e.InputTokens = 1 }},
		{EstimateExceedsLimit, LimitOutputTokens, 3, func() { e.OutputTokens = 1 }},
		{ExecutionDepthExceeded, LimitMaxDepth, 3, func() { x.Depth = 4 }},
		{ExecutionBudgetExceeded, LimitMaxCost, 3, func() { x.MaxCost = 0 }},
		{ExecutionBudgetExceeded, LimitMaxCalls, 3, func() { x.MaxCalls = 0 }},
		{TenantQuotaExceeded, LimitMonth, 4, func() { u.Month = 49 }},
		{TenantQuotaExceeded, LimitDay, 4, func() { l.Day.Cap = 300 }},
		{TenantQuotaExceeded, LimitMinute, 4, func() { u.Minute = 49 }},
		{ReadOnlyMode, NoLimit, 3, func() { u.Day = 99; l.Day.Cap = 250 }},
		{ToolDeferred, NoLimit, 2, func() { u.Day = 49 }},
		{RateLimited, LimitRequests, 0, func() { u.Requests = 99 }},
		{RateLimited, LimitInputTokens, 0, func() { u.InputTokens = 99 }},
		{RateLimited, LimitOutputTokens, 0, func() { u.OutputTokens = 99 }},
		{RateLimited, LimitConcurrency, 0, func() { u.Running = 99 }},
		{RateLimited, LimitOpenExecutions, 0, func() { u.Execution.Open = true }},
		{"", NoLimit, 0, func() {}},
	} {
		v := Decide(l, Ask{Estimate: e, Effect: Write}, x, u)
		if v.Code != step.code || v.Limit != step.limit || v.Rung != step.rung {
			t.Fatalf("got %+v, want %s %s rung %d", v, step.code, step.limit, step.rung)
		}
		step.mend()
	}
	if v := Decide(l, Ask{Estimate: e}, Execution{Depth: 9}, full); v.Code == ExecutionRevoked || v.Code == ExecutionDepthExceeded {
		t.Errorf("without an execution: %+v", v)
	}
}

// Whoever is admitted fits every limit, and a refusal names a limit that does not fit.
func TestDecideIsSound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(0, 120)
		l, u := roomy(), Usage{Requests: n.Draw(t, "q"), InputTokens: n.Draw(t, "i"), OutputTokens: n.Draw(t, "o"), Running: n.Draw(t, "c"),
			Minute: money.Nano(n.Draw(t, "m")), Day: money.Nano(n.Draw(t, "d")), Month: money.Nano(n.Draw(t, "mo"))}
		e := Estimate{Nanos: money.Nano(n.Draw(t, "e")), InputTokens: n.Draw(t, "ei"), OutputTokens: n.Draw(t, "eo")}
		fits := u.Requests < 100 && u.InputTokens+e.InputTokens <= 100 && u.OutputTokens+e.OutputTokens <= 100 && u.Running < 100 &&
			u.Minute+e.Nanos <= 100 && u.Day+e.Nanos <= 100 && u.Month+e.Nanos <= 100
		v := Decide(l, Ask{Estimate: e}, Execution{}, u)
		if (v.Code == "") != fits {
			t.Fatalf("%+v, but fits is %v", v, fits)
		}
		if !fits && v.Used+v.Asked <= v.Ceiling {
			t.Fatalf("refusal %+v names a limit that fits", v)
		}
	})
}

// Goal: what an account is told of its windows is what the smallest call is told: the rung it is admitted on, or 4.
func TestRungOfAnAccount(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		nano := func(name string) money.Nano { return money.Nano(rapid.Int64Range(0, 20).Draw(rt, name)) }
		l, u := roomy(), Usage{Minute: nano("minute used"), Day: nano("day used"), Month: nano("month used")}
		l.Minute, l.Month = Hard(nano("minute")+1), Hard(nano("month")+1)
		l.Day.Limit = nano("day") + 1
		l.Day.Cap = l.Day.Limit + nano("overrun")
		rung := max(l.Minute.Rung(u.Minute), l.DayRung(u.Day), l.Month.Rung(u.Month))
		v := Decide(l, Ask{Estimate: Estimate{Nanos: 1}}, Execution{}, u)
		if v.Rung != rung || (v.Code != "") != (rung == ladder.Cut) {
			rt.Fatalf("the account says %d, the call %+v", rung, v)
		}
	})
}

func TestSoft(t *testing.T) {
	for _, c := range []struct {
		limit   money.Nano
		percent string
		want    money.Nano
	}{
		{1000, "10", 1100}, {1000, "0", 1000}, {1001, "10", 1101}, {9, "10", 9}, {3, "33.3", 3}, {4, "25", 5},
		{1000, "-10", 1000}, {money.MaxNano, "10", money.MaxNano},
	} {
		p, err := money.ParsePercent(c.percent)
		if err != nil {
			t.Fatal(err)
		}
		if got := Soft(c.limit, p); got.Cap != c.want || got.Limit != c.limit {
			t.Errorf("Soft(%d, %s) = %+v, want cap %d", c.limit, c.percent, got, c.want)
		}
	}
}

func TestValidate(t *testing.T) {
	if err := roomy().Validate(); err != nil {
		t.Errorf("roomy: %v", err)
	}
	for name, spoil := range map[string]func(*Limits){
		"no concurrency": func(l *Limits) { l.Concurrency = 0 }, "open executions": func(l *Limits) { l.OpenExecutions = -1 }, "negative rate": func(l *Limits) { l.Requests = -1 },
		"cap below limit": func(l *Limits) { l.Day.Cap = 99 }, "beyond the bound": func(l *Limits) { l.Month = Hard(money.MaxNano + 1) },
	} {
		l := roomy()
		spoil(&l)
		if err := l.Validate(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := (Estimate{OutputTokens: -1}).Validate(); !errors.Is(err, ErrInvalid) {
		t.Errorf("negative tokens: %v", err)
	}
	if got := (Estimate{}).AtLeast(1); got.Nanos != 1 {
		t.Errorf("a free estimate holds %d", got.Nanos)
	}
}

func TestFingerprint(t *testing.T) {
	base := Content{Provider: "openai", Model: "gpt-4o", Root: "r", Meters: []Meter{{"input", "10"}, {"output", "20"}}, LeaseSeconds: 60}
	same := base
	same.Meters = []Meter{{"output", "20"}, {"input", "10"}}
	if base.Fingerprint() != same.Fingerprint() {
		t.Error("the order of meters matters")
	}
	seen := map[Fingerprint]int{base.Fingerprint(): -1}
	for i, change := range []func(*Content){
		func(c *Content) { c.Provider, c.Model = "openaig", "pt-4o" }, func(c *Content) { c.Effect = "write" },
		func(c *Content) { c.Root, c.Agent = "", "r" }, func(c *Content) { c.Parent = "p" }, func(c *Content) { c.CostCentre = "c" },
		func(c *Content) { c.Depth = 1 }, func(c *Content) { c.LeaseSeconds = 61 }, func(c *Content) { c.Meters = base.Meters[:1] },
		func(c *Content) { c.Meters = []Meter{{"input", "102"}, {"output", "0"}} }, func(c *Content) { c.Meters = []Meter{{"input", "20"}, {"output", "10"}} },
	} {
		c := base
		change(&c)
		if j, ok := seen[c.Fingerprint()]; ok {
			t.Errorf("change %d has the fingerprint of %d", i, j)
		}
		seen[c.Fingerprint()] = i
	}
}

func TestRetryAfterAndResetsAt(t *testing.T) {
	at := time.Date(2026, 3, 28, 22, 30, 0, 500_000_000, time.UTC)
	for _, c := range []struct {
		code  Code
		frees time.Duration
		want  time.Duration
		ok    bool
	}{
		{RateLimited, 1500 * time.Millisecond, 2 * time.Second, true}, {RateLimited, time.Millisecond, time.Second, true},
		{RateLimited, time.Hour, 61 * time.Second, true}, {RateLimited, -time.Second, time.Second, true},
		{StoreUnavailable, 0, time.Second, true}, {TenantQuotaExceeded, time.Second, 0, false}, {Killed, time.Second, 0, false},
	} {
		r := Refusal{Code: c.code, At: at}
		if c.frees != 0 {
			r.FreesAt = at.Add(c.frees)
		}
		if got, ok := r.RetryAfter(); got != c.want || ok != c.ok {
			t.Errorf("%s %s: %s %v", c.code, c.frees, got, ok)
		}
	}
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	frees := at.Add(3 * time.Second)
	for _, c := range []struct {
		r    Refusal
		want time.Time
	}{
		{Refusal{Code: TenantQuotaExceeded, Limit: LimitMinute, FreesAt: frees}, frees},
		{Refusal{Code: TenantQuotaExceeded, Limit: LimitDay, Window: 20260329}, time.Date(2026, 3, 29, 22, 0, 0, 0, time.UTC)}, // 23 h
		{Refusal{Code: TenantQuotaExceeded, Limit: LimitMonth, Window: 202603}, time.Date(2026, 3, 31, 22, 0, 0, 0, time.UTC)},
		{Refusal{Code: TenantQuotaExceeded, Limit: LimitMonth, Window: 20260227}, time.Date(2026, 3, 29, 22, 0, 0, 0, time.UTC)}, // 31 days after it began
		{Refusal{Code: RateLimited, Limit: LimitRequests, FreesAt: frees}, time.Time{}},
	} {
		if got := c.r.ResetsAt(berlin); !got.Equal(c.want) {
			t.Errorf("%+v resets at %s, want %s", c.r, got, c.want)
		}
	}
}

// Every code has a status, a title of its own, and Retry-After only where a retry may help (I9).
func TestCodes(t *testing.T) {
	titles := map[string]Code{}
	for code, want := range map[Code]struct {
		status int
		retry  bool
	}{
		RateLimited: {429, true}, UpstreamThrottled: {429, true}, TenantQuotaExceeded: {429, false}, ToolDeferred: {403, false},
		ReadOnlyMode: {403, false}, EstimateExceedsLimit: {422, false}, ExecutionBudgetExceeded: {403, false},
		ExecutionDepthExceeded: {403, false}, ExecutionRevoked: {403, false}, Killed: {503, false}, ProviderAccountClosed: {503, false},
		StoreUnavailable: {503, true}, StoreRecovering: {503, true}, UnknownPrice: {422, false}, ReservationConflict: {409, false},
		ReservationNotFound: {404, false}, ForbiddenTenant: {403, false}, Unauthenticated: {401, false}, InvalidArgument: {400, false},
	} {
		if code.Status() != want.status || code.Retryable() != want.retry {
			t.Errorf("%s: %d %v", code, code.Status(), code.Retryable())
		}
		if other, ok := titles[code.Title()]; ok || code.Title() == Code("").Title() {
			t.Errorf("%s has the title of %q", code, other)
		}
		titles[code.Title()] = code
	}
	if Code("new").Status() != 500 || !ExecutionBudgetExceeded.Trips() || ExecutionRevoked.Trips() {
		t.Error("unknown codes are 500; budget trips, revoked has tripped already")
	}
}

func TestTexts(t *testing.T) {
	for want, r := range map[string]Refusal{
		"minute: 0.9 USD used and held, 0.3 USD asked, 1 USD allowed.": {Limit: LimitMinute, Used: 900_000_000, Asked: 300_000_000, Ceiling: 1_000_000_000},
		"day: 0.3 USD asked, 0.2 USD allowed in all.":                  {Code: EstimateExceedsLimit, Limit: LimitDay, Asked: 300_000_000, Ceiling: 200_000_000},
		"input_tokens_per_minute: 11 asked, 10 allowed in all.":        {Code: EstimateExceedsLimit, Limit: LimitInputTokens, Asked: 11, Ceiling: 10},
		"requests_per_minute: 10 used, 1 asked, 10 allowed.":           {Limit: LimitRequests, Used: 10, Asked: 1, Ceiling: 10},
		"max_depth: depth 4, 3 allowed.":                               {Limit: LimitMaxDepth, Used: 4, Ceiling: 3},
		"The execution was ended.":                                     {Code: ExecutionRevoked},
	} {
		if got := r.Detail(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// The windows of a calendar hold for every store clock within the allowed skew.
func TestCalendar(t *testing.T) {
	midnight := time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)
	for _, ahead := range []time.Duration{-MaxSkew, -time.Second, 0, time.Second, MaxSkew} {
		c := CalendarAt(midnight.Add(ahead), time.UTC)
		if c.Windows.Day != 20260630 && c.Windows.Day != 20260701 || !c.Clock.Equal(midnight.Add(ahead)) {
			t.Errorf("%s: %+v", ahead, c)
		}
		if ahead < MaxSkew && (c.Windows.Day != 20260630 || c.Windows.NextDay != 20260701 || !c.Windows.DayEnds.Equal(midnight)) {
			t.Errorf("%s: %+v", ahead, c.Windows)
		}
	}
}

// Goal: a calendar that is carried on within its minute is the one that would be worked out, at every border of days and of
// summer time; in another minute it is not carried on.
func TestCalendarCarriedOn(t *testing.T) {
	var zones []*time.Location
	for _, name := range []string{"UTC", "America/Santiago", "Asia/Kathmandu", "Pacific/Apia"} {
		loc, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		zones = append(zones, loc)
	}
	rapid.Check(t, func(t *rapid.T) {
		loc := rapid.SampledFrom(zones).Draw(t, "zone")
		first := time.Unix(rapid.Int64Range(946_684_800, 2_000_000_000).Draw(t, "minute")/900*900, 0).Add(MaxSkew)
		at := func(name string) time.Time {
			return first.Add(time.Duration(rapid.Int64Range(-int64(time.Minute), 2*int64(time.Minute)).Draw(t, name)))
		}
		one, other := at("one"), at("other")
		got, ok := CalendarAt(one, loc).Later(other)
		if same := one.Add(-MaxSkew).Unix()/60 == other.Add(-MaxSkew).Unix()/60; ok != same {
			t.Fatalf("%s after %s: carried on %v", other, one, ok)
		}
		if ok && got != CalendarAt(other, loc) {
			t.Fatalf("%+v, not %+v", got, CalendarAt(other, loc))
		}
	})
}

// Goal: two clocks are apart by what cannot have been on its way, in both directions.
func TestApart(t *testing.T) {
	asked := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	answered := asked.Add(time.Second)
	for at, want := range map[time.Duration]time.Duration{0: 0, time.Second / 2: 0, time.Second: 0, 4 * time.Second: 3 * time.Second, -time.Hour: -time.Hour} {
		if got := Apart(asked.Add(at), asked, answered); got != want {
			t.Errorf("%s after the question: %s, want %s", at, got, want)
		}
	}
}
