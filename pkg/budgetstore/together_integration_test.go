//go:build integration

package budgetstore

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/testkit"
)

// joint is a reservation or an end, sent in a round trip with others.
type joint struct {
	request *Request
	end     walkEnd
	call    *sharedCall
}

func (w *walk) jointReservation(r Request) joint {
	keys, args := w.store.reserveCall(&r)
	return joint{request: &r, call: w.store.reservation(&r, keys, args)}
}

func (w *walk) jointEnd(e walkEnd) joint {
	keys, args := w.store.finishCall(e.ref, e.keeps, e.actual)
	return joint{end: e, call: w.store.end(keys, args)}
}

// check compares the answer with the model's, which then has it too.
func (w *walk) check(j joint) {
	w.t.Helper()
	reply, err := text(j.call.result())
	if j.request != nil {
		got, err := j.request.reply(reply, err)
		w.must(err)
		w.checkReserve(*j.request, got, w.now())
		return
	}
	got, err := ending("end", reply, err)
	w.must(err)
	if got.Applied {
		w.count["ended together"]++
	}
	w.checkEnd(j.end, got)
}

// someJoint are a few reservations and ends of one round trip, mixed.
func (w *walk) someJoint() []joint {
	var list []joint
	for range 1 + w.r.IntN(7) {
		if h := w.someEnd(); h != nil && w.r.IntN(3) > 0 {
			list = append(list, w.jointEnd(w.ending(h)))
		} else {
			list = append(list, w.jointReservation(w.someRequest()))
		}
	}
	return list
}

// inTurn are the same in the order in which they are decided: a kind at a time, that of the first before the other.
func inTurn(list []joint) []joint {
	return slices.SortedStableFunc(slices.Values(list), func(x, y joint) int {
		rank := func(j joint) int {
			return map[bool]int{true: 0, false: 1}[(j.request == nil) == (list[0].request == nil)]
		}
		return rank(x) - rank(y)
	})
}

// stepTogether sends reservations and ends in one round trip.
func (w *walk) stepTogether() {
	list := w.someJoint()
	w.sendJoint(list)
	for _, j := range inTurn(list) {
		w.check(j)
	}
}

func (w *walk) sendJoint(list []joint) {
	var calls []*sharedCall
	for _, j := range list {
		calls = append(calls, j.call)
	}
	w.send(calls)
}

// Reservations and ends that ride together leave exactly what they leave one by one: each answer and every byte of every key
// of the tenant, also where one of them has sub-scopes, is expiring, of yesterday, named twice or not there.
func TestTogetherAsAlone(t *testing.T) {
	url := testkit.Redis(t)
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			kind := walkKind{scopes: seed%2 == 1, days: 8}
			one, many := newWalk(t, url, kind, seed), newWalk(t, url, kind, seed) // the same at random, in two tenants
			for _, w := range []*walk{one, many} {                                // many holds at a time
				l := &w.limits
				l.Requests, l.InputTokens, l.OutputTokens, l.Concurrency = 60, 9000, 9000, 40
				l.Minute, l.Day.Limit, l.Day.Cap, l.Month = admit.Hard(10_000), 100_000, 110_000, admit.Hard(1_000_000)
			}
			for range 300 {
				one.tick()
				many.tick()
				list := many.someJoint()
				many.sendJoint(list)
				for _, j := range inTurn(one.someJoint()) {
					one.send([]*sharedCall{j.call})
					one.check(j)
				}
				for _, j := range inTurn(list) {
					many.check(j)
				}
				if a, b := one.everything(), many.everything(); !maps.Equal(a, b) {
					t.Fatalf("one by one\n%q\ntogether\n%q", a, b)
				}
				if one.r.IntN(20) == 0 {
					one.stepDue()
				}
				if many.r.IntN(20) == 0 {
					many.stepDue()
				}
			}
			least := 150
			if kind.scopes { // with ceilings of their own
				least = 60
			}
			if many.count["ended together"] < least || many.count["admitted"] < least {
				t.Errorf("seen: %v", many.count)
			}
		})
	}
}

// everything is what Redis has of the tenant, without its name: strings and the fields of hashes and sets.
func (w *walk) everything() map[string]string {
	w.t.Helper()
	prefix, all := key(w.tenant, ""), map[string]string{}
	keys, err := w.store.client.Keys(w.t.Context(), prefix+"*").Result()
	w.must(err)
	for _, k := range keys {
		name := strings.TrimPrefix(k, prefix)
		kind, err := w.store.client.Type(w.t.Context(), k).Result()
		w.must(err)
		switch kind {
		case "string":
			all[name], err = w.store.client.Get(w.t.Context(), k).Result()
		case "hash":
			var fields map[string]string
			fields, err = w.store.client.HGetAll(w.t.Context(), k).Result()
			for field, value := range fields {
				all[name+" "+field] = value
			}
		case "set":
			var members []string
			members, err = w.store.client.SMembers(w.t.Context(), k).Result()
			all[name] = fmt.Sprint(slices.Sorted(slices.Values(members)))
		case "zset":
			var members []string
			members, err = w.store.client.ZRange(w.t.Context(), k, 0, -1).Result()
			all[name] = fmt.Sprint(slices.Sorted(slices.Values(members)))
		}
		w.must(err)
	}
	return all
}

// What is held up does not hold the others up: of the ends in one round trip, those of another epoch are refused alone.
func TestTogetherEpochs(t *testing.T) {
	w := newWalk(t, testkit.Redis(t), walkKind{}, 1)
	first, second := w.admit(w.request(3)), w.admit(w.request(4))
	old := first
	old.Tenant.Epoch++
	var calls []*sharedCall
	for _, ref := range []Ref{old, second, first} {
		keys, args := w.store.finishCall(ref, false, w.someEstimate())
		calls = append(calls, w.store.end(keys, args))
	}
	w.send(calls)
	for i, want := range []byte{replyEpoch, replyDone, replyDone} {
		if reply, err := text(calls[i].result()); err != nil || reply[0] != want {
			t.Errorf("%d: %q, %v", i, reply, err)
		}
	}
	if b := w.budget(); b.Concurrency != 0 || b.Day.Held != 0 {
		t.Errorf("%+v", b)
	}
	lost := old
	lost.Tenant.ID += "-unknown"
	keys, args := w.store.finishCall(lost, false, w.someEstimate())
	calls = []*sharedCall{w.store.end(keys, args), w.store.end(keys, args)}
	w.send(calls)
	for _, c := range calls {
		if reply, err := text(c.result()); err != nil || reply != string(rune(replyLost)) {
			t.Errorf("lost: %q, %v", reply, err)
		}
	}
}
