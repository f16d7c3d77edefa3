package admission

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/weir-project/weir/pkg/domain/ladder"
	"github.com/weir-project/weir/pkg/domain/money"
)

// fill sets every member of a struct to something, or leaves it zero.
func fill(t *rapid.T, v reflect.Value) {
	if rapid.IntRange(0, 3).Draw(t, "leave") == 0 {
		return
	}
	switch v.Interface().(type) {
	case money.USD:
		v.Set(reflect.ValueOf(money.Nano(rapid.Int64Range(-1<<53, 1<<53).Draw(t, "nanos")).USD()))
		return
	case money.Decimal:
		v.Set(reflect.ValueOf(money.NewDecimal(rapid.Int64().Draw(t, "n"))))
		return
	case map[string]money.Decimal:
		m := map[string]money.Decimal{}
		for range rapid.IntRange(0, 3).Draw(t, "meters") {
			m[rapid.StringMatching("[a-z_]{1,9}").Draw(t, "meter")] = money.NewDecimal(rapid.Int64().Draw(t, "q"))
		}
		v.Set(reflect.ValueOf(m))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(rapid.String().Draw(t, "s"))
	case reflect.Int, reflect.Int64:
		v.SetInt(rapid.Int64().Draw(t, "i"))
	case reflect.Uint8:
		v.SetUint(uint64(rapid.Byte().Draw(t, "u")))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem())
	case reflect.Slice: // of strings
		v.Set(reflect.ValueOf(rapid.SliceOfN(rapid.String(), 0, 3).Draw(t, "list")))
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i))
		}
	default:
		t.Fatalf("a %s has no value here", v.Type())
	}
}

// Goal: what is appended by hand is what encoding/json makes of the struct, whatever it holds.
func TestAppendedIsEncoded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for _, v := range []any{&reserveAnswer{}, &settleAnswer{}} {
			fill(t, reflect.ValueOf(v).Elem())
			if a, ok := v.(*reserveAnswer); ok { // these are of characters that need no escape
				for _, s := range []*string{&a.Receipt, &a.ReservedAt, &a.ExpiresAt} {
					*s = base64.RawURLEncoding.EncodeToString([]byte(*s))
				}
			}
			want, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			if got := v.(appender).appendJSON(nil); !bytes.Equal(got, want) {
				t.Errorf("%T\n%s\n%s", v, got, want)
			}
		}
	})
}

// Goal: so is the answer to a batch, with what was decided and what went wrong.
func TestAppendedBatchIsEncoded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := batchAnswer{Results: make([]batchResult, rapid.IntRange(1, 4).Draw(t, "n"))}
		for i := range a.Results {
			r := &a.Results[i]
			if r.Status = 409; rapid.Bool().Draw(t, "good") {
				r.Status, r.Reservation = 201, &reserveAnswer{ReservationID: rapid.String().Draw(t, "id"), Receipt: "a.b"}
				continue
			}
			r.Problem = problem("reservation_conflict", rapid.String().Draw(t, "detail"))
		}
		want, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		if got := appender(a).appendJSON(nil); !bytes.Equal(got, want) {
			t.Errorf("\n%s\n%s", got, want)
		}
	})
}

func BenchmarkReserveAnswerJSON(b *testing.B) {
	left := nanoUSD(12_000_000_000)
	a := reserveAnswer{ReservationID: "call-1", State: stateOpen, Rung: ladder.Rung(1), Mode: "caching", Model: "gpt-4o", Receipt: string(bytes.Repeat([]byte("A"), 600)),
		Execution: &executionPosition{RootExecutionID: "root", RemainingUSD: &left}, ReservedAt: "2026-11-30T05:00:00Z", ExpiresAt: "2026-11-30T05:02:00Z"}
	b.ReportAllocs()
	for b.Loop() {
		a.appendJSON(nil)
	}
}
