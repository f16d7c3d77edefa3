package tenant

import (
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/domain/money"
)

func valid() Contract {
	return Contract{
		Limits: Limits{Concurrency: 1}, Ceilings: Ceilings{Minute: 1, Day: 1, Month: 1},
		Count: CountRaw, Month: MonthCalendar, Ladder: DefaultLadder(),
	}
}

// Validate names every wrong field at once.
func TestValidate(t *testing.T) {
	if err := valid().Validate(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		want  string
		spoil func(*Contract)
	}{
		{"limits.concurrency", func(c *Contract) { c.Limits.Concurrency = 0 }},
		{"limits.requests_per_minute", func(c *Contract) { c.Limits.RequestsPerMinute = -1 }},
		{"limits.concurrency", func(c *Contract) { c.Limits.Concurrency = MaxLimit + 1 }},
		{"limits.input_tokens_per_minute", func(c *Contract) { c.Limits.InputTokensPerMinute = MaxLimit + 1 }},
		{"execution.max_calls", func(c *Contract) { c.Execution.MaxCalls = MaxLimit + 1 }},
		{"ceilings.day_usd", func(c *Contract) { c.Ceilings.Day = money.MaxNano + 1 }},
		{"execution.max_depth", func(c *Contract) { c.Execution.MaxDepth = -1 }},
		{"ceilings.minute_usd", func(c *Contract) { c.Ceilings.Minute = 0 }},
		{"ceilings.month_usd", func(c *Contract) { c.Ceilings.Month = -5 }},
		{"count", func(c *Contract) { c.Count = "net" }},
		{"month", func(c *Contract) { c.Month = "lunar" }},
		{"ladder", func(c *Contract) { c.Ladder = [3]int32{0, 80, 100} }},
		{"timezone", func(c *Contract) { c.Timezone = "Nowhere/Land" }},
		{"timezone", func(c *Contract) { c.Timezone = "Local" }},
		{"unknown_price", func(c *Contract) { c.UnknownPrice = "free" }},
	} {
		got := valid()
		c.spoil(&got)
		if err := got.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v", c.want, err)
		}
	}
}

// The version in force is the last that began at or before the time; usage from before the first takes the first.
func TestHistoryAt(t *testing.T) {
	day := func(n int) time.Time { return time.Date(2026, 11, n, 0, 0, 0, 0, time.UTC) }
	h := History{ID: "acme"}
	for i, d := range []int{1, 10, 10, 20} {
		c := valid()
		c.EffectiveFrom, c.Ceilings.Day = day(d), money.Nano(i+1)
		next, err := h.With(c)
		if err != nil {
			t.Fatal(err)
		}
		h = next
	}
	for _, c := range []struct {
		at   time.Time
		want money.Nano
	}{
		{day(1).Add(-time.Hour), 1}, {day(1), 1}, {day(10).Add(-1), 1}, {day(10), 3}, {day(19), 3}, {day(20), 4}, {day(30), 4},
	} {
		got, ok := h.At(c.at)
		if !ok || got.Ceilings.Day != c.want {
			t.Errorf("%s: version %d, want %d", c.at, got.Ceilings.Day, c.want)
		}
	}
	if _, ok := (History{}).At(day(1)); ok {
		t.Error("a tenant without versions has a contract")
	}
	early := valid()
	early.EffectiveFrom = day(15)
	if _, err := h.With(early); err == nil {
		t.Error("a version before the newest was taken")
	}
}
