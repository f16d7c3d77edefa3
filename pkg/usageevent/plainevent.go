package usageevent

import (
	"slices"
	"time"

	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/plainjson"
)

// Decoding what was just encoded, only to see whether that can be done, costs as much as all else that a settle decides.
// An event whose members are plain is known to decode by looking at them; for every other one Decode itself is asked. A
// property test holds the two against each other.

// plain reports whether ev, if its usage is plain JSON, is one that Decode certainly takes: false says nothing. It follows
// build and readData.
func (ev *Event) plain() bool {
	return plainID(ev.ID, maxIDOf(ev.Source)) && plainID(ev.Source, MaxText) && (ev.Subject == "" || plainID(ev.Subject, MaxID)) &&
		(ev.Type == TypeUsage || ev.Type == TypeUnsettled || ev.Type == TypeTermination) && plainTime(ev.Time) && ev.Data.plain()
}

func (d *Data) plain() bool {
	for _, m := range d.texts() {
		if s := *m.to; s != "" && (!plainText(s, m.limit) || m.kind != asText && textOfNull(s)) {
			return false
		}
	}
	switch {
	case d.Status != "" && !isStatus(d.Status):
		return false
	case d.Usage != nil && (d.Meters != nil || !d.ordered && !inOrder(d.Usage)):
		return false
	}
	return d.Marker == nil && d.CacheHit == "" && plainMeters(d.Meters) && (d.Reservation == nil || d.Reservation.plain())
}

func (r *Reservation) plain() bool {
	if !isOutcome(r.Outcome) || r.OwnMode != "" && !isOwnMode(r.OwnMode) {
		return false
	}
	for _, flag := range r.Flags {
		if flag != FlagDearerModel {
			return false
		}
	}
	return r.plainFigures() && plainText(r.PriceVersion, MaxText) && len(r.Flags) <= maxFlags && plainScopes(r.Scopes) && plainBranches(r.Branches)
}

func (r *Reservation) plainFigures() bool {
	return !r.ReservedAt.IsZero() && plainTime(r.ReservedAt) && r.OwnNanos >= 0 && r.OwnNanos <= money.MaxNano && r.HeldNanos >= 0 && r.HeldNanos <= money.MaxNano &&
		r.Epoch >= 0 && r.Epoch <= maxReservationEpoch && r.Depth >= 0 && r.Depth <= maxDepth && r.Day >= 0 && r.Day <= maxDay &&
		(r.EstimateUSD == nil || r.EstimateUSD.Sign() >= 0 && r.EstimateUSD.Readable()) && plainMeters(r.Estimate)
}

func plainScopes(scopes map[string]string) bool {
	for kind, name := range scopes {
		if !isScopeKind(kind) || !plainID(name, MaxID) {
			return false
		}
	}
	return true
}

func plainBranches(ids []string) bool {
	for i, id := range ids {
		if !plainID(id, MaxID) || slices.Contains(ids[:i], id) {
			return false
		}
	}
	return len(ids) <= MaxBranches
}

// plainTime is what instant takes.
func plainTime(t time.Time) bool {
	return t.IsZero() || t.UTC().Year() >= 2000 && t.UTC().Year() <= 2199
}

// plainText is printable ASCII of at most limit bytes.
func plainText(s string, limit int) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return len(s) <= limit
}

func plainID(s string, limit int) bool { return plainText(s, limit) && !textOfNull(s) }

// inOrder reports whether plain JSON is an object that checkUsage takes once it is in order. Two equal names are not
// plain, so there can only be two that differ by case.
func inOrder(raw []byte) bool {
	at := plainjson.Space(raw, 0)
	return at < len(raw) && raw[at] == '{' && (!hasUpper(raw) || checkUsage(raw) == nil)
}

func hasUpper(s []byte) bool {
	for _, c := range s {
		if c >= 'A' && c <= 'Z' {
			return true
		}
	}
	return false
}

func plainMeters(m map[string]money.Decimal) bool {
	for name, q := range m {
		if !meterName(name) || q.Sign() < 0 || !q.Readable() {
			return false
		}
	}
	return len(m) <= MaxMeters
}
