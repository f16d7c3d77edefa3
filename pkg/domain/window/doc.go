// Package window owns which windows an instant belongs to, and the fold of entries into window totals.
//
// It owns: the keys of minute, hour, day and month, the borders of days and months in a tenant's time zone, the Calendar
// that admission hands to the budget store, and Total. It does not own where totals are kept or who may spend.
//
// Invariants:
//   - Days partition time, and so do months: every instant is in exactly one, whatever a zone does at midnight. A month is
//     the sum of its days.
//   - A window is chosen by one instant, fixed once: the time of the reservation, else the time of the event. A hold opened
//     at 23:59 and settled at 00:01 is charged to the day in which it was reserved.
//   - A Total folds each journal offset at most once.
package window
