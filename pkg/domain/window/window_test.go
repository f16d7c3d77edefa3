package window

import (
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/weir-project/weir/pkg/domain/money"
	"pgregory.net/rapid"
)

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

func at(t testing.TB, s string) time.Time {
	t.Helper()
	v, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestKeys(t *testing.T) {
	for _, c := range []struct {
		zone, at string
		want     Keys
	}{
		{"UTC", "2026-04-30T23:59:59.999Z", Keys{1777593540, 1777590000, 20260430, 202604}}, // field report 103
		{"UTC", "2026-05-01T00:00:00Z", Keys{1777593600, 1777593600, 20260501, 202605}},
		{"Europe/Budapest", "2026-04-30T22:00:00Z", Keys{1777586400, 1777586400, 20260501, 202605}},
		{"Asia/Kolkata", "2026-01-01T18:29:59Z", Keys{1767292140, 1767290400, 20260101, 202601}},
		{"Asia/Kolkata", "2026-01-01T18:30:00Z", Keys{1767292200, 1767290400, 20260102, 202601}},
		{"UTC", "1969-12-31T23:59:59Z", Keys{-60, -3600, 19691231, 196912}},
	} {
		if got := KeysAt(at(t, c.at), zone(t, c.zone)); got != c.want {
			t.Errorf("%s in %s: %+v, want %+v", c.at, c.zone, got, c.want)
		}
	}
}

// Field report 104: months and days with a change of the clocks.
func TestBounds(t *testing.T) {
	for _, c := range []struct {
		zone  string
		label int32
		start string
		hours float64
		next  int32
	}{
		{"Europe/Budapest", 20260329, "2026-03-28T23:00:00Z", 23, 20260330},
		{"Europe/Budapest", 20261025, "2026-10-24T22:00:00Z", 25, 20261026},
		{"Europe/Budapest", 202603, "2026-02-28T23:00:00Z", 31*24 - 1, 202604},
		{"Europe/Budapest", 202610, "2026-09-30T22:00:00Z", 31*24 + 1, 202611},
		{"America/Sao_Paulo", 20181104, "2018-11-04T03:00:00Z", 23, 20181105}, // no 00:00 on that day
		{"America/St_Johns", 20101107, "2010-11-07T03:30:00Z", 24, 20101108},  // 00:01 back to 23:01: the day starts at its second midnight
		{"America/St_Johns", 20101106, "2010-11-06T02:30:00Z", 25, 20101107},
		{"Pacific/Apia", 20111229, "2011-12-29T10:00:00Z", 24, 20111231}, // 30 December did not happen
		{"UTC", 20281231, "2028-12-31T00:00:00Z", 24, 20290101},
		{"UTC", 202812, "2028-12-01T00:00:00Z", 31 * 24, 202901},
	} {
		bounds := DayBounds
		if c.label < 1_000_000 {
			bounds = MonthBounds
		}
		b := bounds(c.label, zone(t, c.zone))
		if !b.Start.Equal(at(t, c.start)) || b.End.Sub(b.Start).Hours() != c.hours || b.Next != c.next {
			t.Errorf("%d in %s: %s, %v h, next %d", c.label, c.zone, b.Start, b.End.Sub(b.Start).Hours(), b.Next)
		}
	}
}

func someZone(t *rapid.T, tt testing.TB) *time.Location {
	return zone(tt, rapid.SampledFrom([]string{"UTC", "Asia/Kolkata", "America/Sao_Paulo", "Europe/Budapest", "America/St_Johns", "Pacific/Apia",
		"Asia/Beirut", "Africa/Cairo", "Australia/Lord_Howe", "America/Havana", "Pacific/Kiritimati", "Etc/GMT+12", "Asia/Kathmandu", "Africa/Casablanca"}).Draw(t, "zone"))
}

// Every instant is inside its own day and month, and the neighbours meet without gap or overlap.
func TestDaysPartitionTime(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		loc := someZone(rt, t)
		now := time.Unix(rapid.Int64Range(946684800, 2208988800).Draw(rt, "unix"), rapid.Int64Range(0, 999_999_999).Draw(rt, "ns"))
		c := CalendarAt(now, loc)
		d, m := DayBounds(c.Day, loc), MonthBounds(c.Month, loc)
		if now.Before(d.Start) || !now.Before(c.DayEnds) || now.Before(m.Start) || !now.Before(c.MonthEnds) {
			rt.Fatalf("%s is not inside %+v (day %s, month %s)", now, c, d.Start, m.Start)
		}
		if next := CalendarAt(c.DayEnds, loc); next.Day != c.NextDay || !DayBounds(next.Day, loc).Start.Equal(c.DayEnds) {
			rt.Fatalf("after day %d comes %d, not %d", c.Day, next.Day, c.NextDay)
		}
		if last := DayOf(c.DayEnds.Add(-1), loc); last != c.Day {
			rt.Fatalf("last instant of %d is in %d", c.Day, last)
		}
		if next := CalendarAt(c.MonthEnds, loc); next.Month != c.NextMonth || DayOf(c.MonthEnds.Add(-1), loc)/100 != c.Month {
			rt.Fatalf("after month %d comes %d, not %d", c.Month, next.Month, c.NextMonth)
		}
	})
}

// Field report 101: the days of a range add up to the range, in +05:30 and -03:00.
func TestSumOfDaysIsTheRange(t *testing.T) {
	for _, name := range []string{"Asia/Kolkata", "America/Sao_Paulo"} {
		loc := zone(t, name)
		days := map[int32]int{}
		first, last := DayBounds(20260301, loc).Start, DayBounds(20260305, loc).End
		events := 0
		for at := first; at.Before(last); at = at.Add(7 * time.Minute) {
			days[DayOf(at, loc)]++
			events++
		}
		sum := 0
		for day := int32(20260301); day <= 20260305; day++ {
			sum += days[day]
		}
		if sum != events || len(days) != 5 {
			t.Errorf("%s: %d events, %d in the five days (%v)", name, events, sum, days)
		}
	}
}

// Field report 107: the instant of the reservation decides, not that of the settle.
func TestHoldAcrossMidnight(t *testing.T) {
	reserved := at(t, "2026-03-31T23:59:00Z")
	if k := KeysAt(reserved, time.UTC); k.Day != 20260331 || k.Month != 202603 {
		t.Errorf("%+v", k)
	}
}

func TestTotal(t *testing.T) {
	one, err := money.ParseUSD("0.000000000000000001")
	if err != nil {
		t.Fatal(err)
	}
	d := Delta{Own: 3, External: -1, Raw: one, Billed: one, InputTokens: 5, OutputTokens: 2, Unpriced: 1, Estimated: 1, EventTime: time.Unix(9, 0), Depth: 4}
	total := Total{}.Add(d, 7)
	if total.Version != 8 || total.Own != 3 || total.External != -1 || total.Entries != 1 || total.MaxDepth != 4 {
		t.Fatalf("%+v", total)
	}
	if again := total.Add(d, 7); again != total {
		t.Fatalf("the same offset was folded twice: %+v", again)
	}
	back := Delta{Own: -3, External: 1, Raw: one.Neg(), Billed: one.Neg(), InputTokens: -5, OutputTokens: -2, Unpriced: -1, Estimated: -1}
	zero := total.Add(back, 8)
	if zero.Own != 0 || !zero.Raw.IsZero() || zero.InputTokens != 0 || zero.UnpricedEntries != 0 || zero.Entries != 2 || zero.Latest != total.Latest {
		t.Fatalf("%+v", zero)
	}
	// A total is exact far beyond what one entry or one counter may have, and then stays: nobody's report stops a fold.
	large := total
	for i := range int64(100) {
		large = large.Add(Delta{Own: money.MaxNano, External: -money.MaxNano}, 9+i)
	}
	if large.Own != 3+100*money.MaxNano || large.External != -1-100*money.MaxNano || large.Version != 109 {
		t.Fatalf("a hundred of the largest: %+v", large)
	}
	large.Own, large.External = most, -most
	if large = large.Add(Delta{Own: 1 << 62, External: -1 << 63}, 200); large.Own != most || large.External != -most {
		t.Fatalf("beyond all bounds: %+v", large)
	}
}
