//go:build integration

package admission

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/weir-project/weir/pkg/domain/tenant"
)

// Goal: the account and a reservation name the same rung, alone and in a batch, over HTTP and gRPC: 4 as soon as every call is
// refused, be the day hard, soft or soft without an overrun. Method: a day of $100 that is used to some percent; then what the
// account says, then what the smallest call is told.
func TestRungOfTheDay(t *testing.T) {
	type row struct {
		overrun string // of a soft day; "" for a hard one
		used    int    // percent
		rung    int
	}
	rows := []row{{"", 49, 0}, {"", 79, 1}, {"", 99, 2}, {"", 100, 4}, {"", 200, 4}, {"0", 99, 2}, {"0", 100, 4}, {"10", 100, 3}, {"10", 109, 3}, {"10", 110, 4}, {"10", 120, 4}}
	contracts := map[string]tenant.Contract{}
	name := func(i int) string { return fmt.Sprint("t", i) }
	for i, c := range rows {
		k := contract()
		k.Ceilings = tenant.Ceilings{Minute: 1000 * dollar, Day: 100 * dollar, Month: 10_000 * dollar}
		if k.SoftDay = c.overrun != ""; k.SoftDay {
			k.Overrun = percent(c.overrun)
		}
		contracts[name(i)] = k
	}
	w := newWorld(t, contracts)
	b := w.startBoth()
	for i, c := range rows {
		tenant, want := name(i), []string{"rung", fmt.Sprint(c.rung)}
		status, out := b.ask(tenant, "all", min(c.used, 100)*100, "read")
		w.want("most of the day", status, out, 201)
		b.spend(tenant, "all", c.used*100)
		web, rpc := b.overHTTP(w.keys[tenant], ask{"GetBudget", "", nil}), b.overGRPC(w.keys[tenant], ask{"GetBudget", "", nil})
		if !reflect.DeepEqual(web.body, rpc.body) {
			t.Errorf("%+v over HTTP and gRPC:\n%v\n%v", c, web.body, rpc.body)
		}
		w.want(fmt.Sprintf("the account at %+v", c), web.http, web.raw, 200, want...)
		windows, _ := web.raw["windows"].(object)
		w.want(fmt.Sprintf("its day at %+v", c), web.http, windows["day"].(object), 200, want...)
		message := fmt.Sprint(web.raw["message"])
		result := b.batch(tenant, cents("batched", 1))[0]
		status, out = b.ask(tenant, "alone", 1, "read")
		if c.rung < 4 {
			w.want(fmt.Sprintf("a call at %+v", c), status, out, 201, want...)
			continue
		}
		w.want(fmt.Sprintf("a call at %+v", c), status, out, 429, append(want, "window", "day")...)
		problem, _ := result["problem"].(object)
		w.want(fmt.Sprintf("in a batch, %+v", c), status, problem, 429, append(want, "window", "day")...)
		if !strings.HasPrefix(message, "Today's budget is used up.") || web.raw["mode"] != "cut" || message != out["message"] {
			t.Errorf("%+v: the account says %q, %v; the call was told %v", c, message, web.raw["mode"], out["message"])
		}
	}
}
