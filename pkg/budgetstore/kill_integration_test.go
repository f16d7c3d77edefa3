//go:build integration

package budgetstore

import (
	"fmt"
	"testing"

	"github.com/weir-project/weir/pkg/domain/admit"
)

// The mirror keeps the newest word of each scope, whoever writes in whatever order; a defect in it hides no other kill.
func TestKillMirror(t *testing.T) {
	w := newWorld(t)
	w.must(w.store.client.Del(t.Context(), killKey).Err())
	mirror := func(kills ...admit.Kill) { t.Helper(); w.must(w.store.MirrorKills(t.Context(), kills)) }
	read := func() string {
		t.Helper()
		kills, err := w.store.Kills(t.Context())
		w.must(err)
		var set admit.Kills
		for _, k := range kills {
			set, _ = set.With(k)
		}
		return fmt.Sprint(set.List())
	}
	all := func(on bool, version int64) admit.Kill {
		return admit.Kill{Scope: admit.KillAll, On: on, Version: version, Reason: "é 1"}
	}
	mirror()
	mirror(all(true, 99), admit.Kill{Scope: admit.KillTenant("a"), On: true, Version: 1})
	mirror(all(false, 98)) // a replica that is behind
	mirror(all(false, 99)) // equal: the one that stops stays
	if got, want := read(), fmt.Sprint([]admit.Kill{all(true, 99), {Scope: admit.KillTenant("a"), On: true, Version: 1}}); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	mirror(all(false, 100)) // three digits after two: compared as numbers
	mirror(all(true, 99))
	if got, want := read(), fmt.Sprint([]admit.Kill{all(false, 100), {Scope: admit.KillTenant("a"), On: true, Version: 1}}); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for i, garbage := range []string{"", "1", fmt.Sprintf("%020d", 7) + "x", fmt.Sprintf("%020d", -7) + "1", "0000000000000000000x1"} {
		w.must(w.store.client.HSet(t.Context(), killKey, fmt.Sprintf("tenant:g%d", i), garbage).Err())
	}
	kills, err := w.store.Kills(t.Context())
	if err == nil || len(kills) != 2 {
		t.Errorf("%v, %v", kills, err)
	}
	if err := w.store.MirrorKills(t.Context(), []admit.Kill{{Scope: "nonsense", Version: 1}}); err == nil {
		t.Error("nonsense was mirrored")
	}
	w.must(w.store.client.Del(t.Context(), killKey).Err())
}
