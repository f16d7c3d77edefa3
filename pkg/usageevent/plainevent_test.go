package usageevent

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-project/weir/pkg/domain/money"
)

// anyText is mostly what Decode takes, and often enough what it does not, or only just.
func anyText(t *rapid.T, name string, limit int) string {
	return rapid.OneOf(
		rapid.SampledFrom([]string{"", "a", "call-1", "gpt-4o", "SUCCESS", "FAILED", "None", " nil ", "undefined", "n\u0130l", "a\nb", "\x7f", "ä😀", "\u2028", "\xff", `"<&>\`, "success"}),
		rapid.String(),
		rapid.Map(rapid.IntRange(limit-1, limit+1), func(n int) string { return strings.Repeat("x", n) }),
	).Draw(t, name)
}

func anyMeters(t *rapid.T, name string) map[string]money.Decimal {
	if rapid.Bool().Draw(t, "no "+name) {
		return nil
	}
	m := map[string]money.Decimal{}
	for range rapid.SampledFrom([]int{0, 1, 2, MaxMeters + 1}).Draw(t, name) {
		meter := rapid.OneOf(rapid.StringMatching("[a-z_0-9]{1,9}"), rapid.SampledFrom([]string{"A b", `x":1,"y`, strings.Repeat("x", 65), ""})).Draw(t, "meter")
		q := money.NewDecimal(rapid.Int64Range(-3, 1<<62).Draw(t, "quantity"))
		for range rapid.IntRange(0, 6).Draw(t, "factors") {
			q = q.Mul(money.NewDecimal(1 << 40)).PerThousand().PerThousand()
		}
		m[meter] = q
	}
	return m
}

func anyTime(t *rapid.T, name string) time.Time {
	return rapid.SampledFrom([]time.Time{{}, time.Unix(1_800_000_000, 123_456_789), time.Unix(1, 0), time.Unix(7_258_118_400, 0),
		time.Date(1999, 12, 31, 23, 0, 0, 0, time.FixedZone("w", -7200)), time.Date(2199, 12, 31, 23, 0, 0, 0, time.FixedZone("w", -7200))}).Draw(t, name)
}

func anyWhole(t *rapid.T, name string, bound int64) int64 {
	return rapid.SampledFrom([]int64{-1, 0, 7, 4711, bound - 1, bound, bound + 1}).Draw(t, name)
}

// mayBe changes an event in one place in twenty.
func mayBe(t *rapid.T, name string, change func()) {
	if rapid.IntRange(0, 19).Draw(t, "odd "+name) == 0 {
		change()
	}
}

func anyEvent(t *rapid.T) Event {
	ev := Event{ID: "settle:r1:17", Source: SourceAdmission, Type: TypeUsage, Subject: "acme", Time: time.Unix(1_800_000_000, 0).UTC(),
		Data: Data{Provider: "openai", Model: "gpt-4o", Status: "SUCCESS", Usage: json.RawMessage(`{"b":1,"a":{"d":[1,{"y":2,"x":3}]}}`)}}
	for name, to := range map[string]*string{"id": &ev.ID, "source": &ev.Source, "subject": &ev.Subject, "type": &ev.Type} {
		mayBe(t, name, func() { *to = anyText(t, name, MaxOwnID) })
	}
	for _, m := range ev.Data.texts() {
		mayBe(t, m.name, func() { *m.to = anyText(t, m.name, m.limit) })
	}
	mayBe(t, "time", func() { ev.Time = anyTime(t, "time") })
	mayBe(t, "usage", func() {
		ev.Data.Usage = rapid.SampledFrom([]json.RawMessage{nil, nil, []byte("null"), []byte(`[1]`), []byte(`{"a":1,"a":2}`), []byte(`{`), []byte(` { "a" : "\u0041" } `), []byte(`{"":"é"}`), []byte(`{"a":1,"A":2}`), []byte(`{"aB":{"c":1,"C":2}}`), []byte(`{"inTokens":1,"choices":{"c":1,"C":2}}`),
			[]byte(strings.Repeat(`{"a":`, 9) + "1" + strings.Repeat("}", 9))}).Draw(t, "usage")
		ev.Data.Meters = anyMeters(t, "meters")
	})
	if rapid.Bool().Draw(t, "reserved") {
		r := &Reservation{ReservedAt: time.Unix(1_800_000_000, 123_456_000), Outcome: OutcomeSettled, OwnMode: OwnModeDirect, OwnNanos: 1, HeldNanos: 2, Epoch: 3, Depth: 4}
		mayBe(t, "reserved at", func() { r.ReservedAt = anyTime(t, "reserved at") })
		mayBe(t, "estimate", func() { r.Estimate = anyMeters(t, "estimate") })
		mayBe(t, "own", func() { r.OwnNanos = money.Nano(anyWhole(t, "own", int64(money.MaxNano))) })
		mayBe(t, "held", func() { r.HeldNanos = money.Nano(anyWhole(t, "held", int64(money.MaxNano))) })
		mayBe(t, "epoch", func() { r.Epoch = anyWhole(t, "epoch", maxReservationEpoch) })
		mayBe(t, "depth", func() { r.Depth = int32(anyWhole(t, "depth", maxDepth)) })
		mayBe(t, "day", func() { r.Day = int32(anyWhole(t, "day", maxDay)) })
		mayBe(t, "outcome", func() { r.Outcome = anyText(t, "outcome", MaxID) })
		mayBe(t, "own mode", func() { r.OwnMode = anyText(t, "own mode", MaxID) })
		mayBe(t, "price version", func() { r.PriceVersion = anyText(t, "price version", MaxText) })
		mayBe(t, "estimate usd", func() {
			usd := money.Nano(rapid.Int64().Draw(t, "usd")).USD().Mul(money.NewDecimal(rapid.Int64().Draw(t, "times")))
			r.EstimateUSD = &usd
		})
		mayBe(t, "flags", func() {
			r.Flags = rapid.SliceOfN(rapid.SampledFrom([]string{FlagDearerModel, "cheap"}), 0, maxFlags+1).Draw(t, "flags")
		})
		mayBe(t, "scopes", func() {
			r.Scopes = map[string]string{rapid.SampledFrom([]string{"agent", "api_key", "cost_center", "team"}).Draw(t, "kind"): anyText(t, "scope", MaxID)}
		})
		mayBe(t, "branches", func() {
			r.Branches = rapid.SliceOfN(rapid.SampledFrom([]string{"b1", "b2", "b3", "b4", "b5", "b6", "b7", "b8", "b9", "", "null", "b\n"}), 0, MaxBranches+1).Draw(t, "ids")
		})
		ev.Data.Reservation = r
	}
	return ev
}

// Goal: what is said to decode without a look at its bytes does decode, and is the same event then; and that is said of
// the usual ones.
func TestPlainEventsDecode(t *testing.T) {
	plainOnes := 0
	rapid.Check(t, func(t *rapid.T) {
		ev := anyEvent(t)
		value, err := EncodeReadable(ev)
		back, decodeErr := Decode(Encode(ev), nil)
		if (err == nil) != (decodeErr == nil) {
			t.Fatalf("%s: %v, but Decode says %v", Encode(ev), err, decodeErr)
		}
		if _, plainUsage := encode(&ev); err != nil || !plainUsage || !ev.plain() {
			return
		}
		plainOnes++
		if again := Encode(back); !bytes.Equal(again, value) && len(ev.Data.Reservation.flags()) < 2 { // equal flags become one
			t.Fatalf("%s is read as %s", value, again)
		}
	})
	if plainOnes < 5 {
		t.Errorf("only %d events were plain: the generator proves nothing", plainOnes)
	}
	for name, ev := range map[string]Event{"full": plainFull(t), "scoped": scopedEvent()} {
		if !ev.plain() {
			t.Errorf("%s is not plain", name)
		}
	}
}

func (r *Reservation) flags() []string {
	if r == nil {
		return nil
	}
	return r.Flags
}

// plainFull is full without what is not ASCII.
func plainFull(t testing.TB) Event {
	ev := full(t)
	ev.Data.Traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	return ev
}

func BenchmarkEncodeReadable(b *testing.B) {
	ev := plainFull(b)
	usage, _ := Order(json.RawMessage(plainUsage), anyName)
	ev.Data.SetUsage(usage)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := EncodeReadable(ev); err != nil {
			b.Fatal(err)
		}
	}
}

// Goal: every text member of data is in the list of them, once.
func TestTextsAreAll(t *testing.T) {
	var d Data
	seen, want := map[*string]bool{}, 0
	for _, m := range d.texts() {
		seen[m.to] = true
	}
	for i := range reflect.TypeFor[Data]().NumField() {
		if reflect.TypeFor[Data]().Field(i).Type.Kind() == reflect.String {
			want++
		}
	}
	if len(seen) != want || len(d.texts()) != want {
		t.Errorf("%d members, %d of them different; data has %d", len(d.texts()), len(seen), want)
	}
}

// Goal: no member is forgotten: an event with any one of them that cannot be read is not plain.
func TestPlainLooksAtEveryMember(t *testing.T) {
	for of, members := range map[string]func(*Event) reflect.Value{
		"data":        func(ev *Event) reflect.Value { return reflect.ValueOf(&ev.Data).Elem() },
		"reservation": func(ev *Event) reflect.Value { return reflect.ValueOf(ev.Data.Reservation).Elem() },
	} {
		whole := plainFull(t)
		for i := range members(&whole).NumField() {
			ev := plainFull(t)
			m := members(&ev).Field(i)
			if !m.CanSet() { // how another one came about
				continue
			}
			m.Set(unreadable(t, m.Type()))
			if ev.plain() {
				t.Errorf("%s: %s is not looked at", of, members(&ev).Type().Field(i).Name)
			}
		}
	}
}

// unreadable is a value that Decode takes of no member of that type.
func unreadable(t *testing.T, of reflect.Type) reflect.Value {
	t.Helper()
	negative := money.Nano(-1).USD()
	for _, v := range []any{"\x00", int64(-1), int32(-1), money.Nano(-1), []string{"\x00"}, map[string]string{"\x00": "\x00"}, map[string]money.Decimal{"\x00": {}},
		json.RawMessage("[1]"), time.Unix(0, 0), &negative, &Marker{}, &Reservation{}} {
		if reflect.TypeOf(v) == of {
			return reflect.ValueOf(v)
		}
	}
	t.Fatalf("a %s has no value here", of)
	return reflect.Value{}
}
