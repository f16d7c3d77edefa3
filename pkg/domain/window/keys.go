package window

import "time"

// Keys are the windows of one instant.
type Keys struct {
	// Minute and Hour are the Unix seconds at which the UTC minute and hour begin.
	Minute, Hour int64
	// Day is YYYYMMDD and Month YYYYMM in the tenant's zone.
	Day, Month int32
}

// KeysAt returns the windows of t for a tenant whose days are those of loc.
func KeysAt(t time.Time, loc *time.Location) Keys {
	day := DayOf(t, loc)
	return Keys{Minute: floor(t.Unix(), 60), Hour: floor(t.Unix(), 3600), Day: day, Month: day / 100}
}

// floor is the greatest multiple of step that is not above n.
func floor(n, step int64) int64 { return n - (n%step+step)%step }

// DayOf returns the day of t in loc as YYYYMMDD: the local date, except that a clock set back over midnight does not
// return to the day before.
func DayOf(t time.Time, loc *time.Location) int32 {
	y, m, d := t.In(loc).Date()
	date := time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
	for t.Before(start(date, loc)) {
		date = date.AddDate(0, 0, -1)
	}
	return label(date)
}

func label(date time.Time) int32 {
	y, m, d := date.Date()
	return int32(y*10000 + int(m)*100 + d)
}

// Bounds are a day's or month's half-open interval [Start, End) in UTC, and the label of what follows it.
type Bounds struct {
	Start, End time.Time
	Next       int32
}

// DayBounds returns the borders of the day YYYYMMDD in loc. A day may have 23 or 25 hours, and Next may skip a date that
// a zone left out. A label that is not a date is read as time.Date would.
func DayBounds(day int32, loc *time.Location) Bounds {
	date := time.Date(int(day/10000), time.Month(day/100%100), int(day%100), 0, 0, 0, 0, time.UTC)
	end := start(date.AddDate(0, 0, 1), loc)
	return Bounds{Start: start(date, loc).UTC(), End: end.UTC(), Next: DayOf(end, loc)}
}

// MonthBounds returns the borders of the month YYYYMM in loc.
func MonthBounds(month int32, loc *time.Location) Bounds {
	date := time.Date(int(month/100), time.Month(month%100), 1, 0, 0, 0, 0, time.UTC)
	end := start(date.AddDate(0, 1, 0), loc)
	return Bounds{Start: start(date, loc).UTC(), End: end.UTC(), Next: DayOf(end, loc) / 100}
}

// start returns the instant from which on no local clock of loc shows an earlier date than date (midnight UTC of its
// year, month and day). It walks back through the zone's periods of constant offset: time.Date alone may answer either
// side of a change that happens at midnight.
func start(date time.Time, loc *time.Location) time.Time {
	t := date.Add(18 * time.Hour) // later than any zone's midnight
	for {
		midnight := localMidnight(date, t.In(loc))
		begin, _ := t.In(loc).ZoneBounds()
		if begin.IsZero() || !midnight.Before(begin) {
			return midnight
		}
		t = begin.Add(-1)
		if !localMidnight(date, t.In(loc)).Before(begin) {
			return begin // midnight fell into the gap at begin
		}
	}
}

// localMidnight is when a clock with the offset that holds at t shows date 00:00.
func localMidnight(date, t time.Time) time.Time {
	_, offset := t.Zone()
	return date.Add(-time.Duration(offset) * time.Second)
}

// Calendar is what admission passes to the budget store with each call: the labels now, when they end by the store's own
// clock, and which come next.
type Calendar struct {
	Now time.Time
	// Day is YYYYMMDD, DayEnds its first instant no more, NextDay the label then.
	Day     int32
	DayEnds time.Time
	NextDay int32
	// Month is YYYYMM.
	Month     int32
	MonthEnds time.Time
	NextMonth int32
}

// CalendarAt returns the calendar of now in loc.
func CalendarAt(now time.Time, loc *time.Location) Calendar {
	day := DayOf(now, loc)
	d, m := DayBounds(day, loc), MonthBounds(day/100, loc)
	return Calendar{Now: now.UTC(), Day: day, DayEnds: d.End, NextDay: d.Next, Month: day / 100, MonthEnds: m.End, NextMonth: m.Next}
}
