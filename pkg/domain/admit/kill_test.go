package admit

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestKillScopes(t *testing.T) {
	for _, s := range []KillScope{KillAll, KillTenant("acme"), KillProvider("gcp.vertex_ai"), KillModel("anthropic/claude:beta"), KillModel(strings.Repeat("m", 256))} {
		if err := s.Validate(); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
	for _, s := range []KillScope{"", "ALL", "all:", "tenant", "tenant:", "agent:x", "model:a b", "model:a\n", KillModel(strings.Repeat("m", 300))} {
		if err := s.Validate(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %v", s, err)
		}
	}
	for _, k := range []Kill{{Scope: KillAll}, {Scope: "x", Version: 1}, {Scope: KillAll, Version: 1, Reason: strings.Repeat("x", 257)}} {
		if err := k.Validate(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: %v", k, err)
		}
	}
}

// Each scope stops what it names and nothing else.
func TestKillStops(t *testing.T) {
	calls := map[string][3]string{"acme's gpt": {"acme", "openai", "gpt-4o"}, "beta's gpt": {"beta", "openai", "gpt-4o"}, "beta's claude": {"beta", "anthropic", "claude"}}
	for scope, want := range map[KillScope]string{
		KillAll: "acme's gpt, beta's claude, beta's gpt", KillTenant("acme"): "acme's gpt", KillProvider("openai"): "acme's gpt, beta's gpt",
		KillModel("claude"): "beta's claude", KillModel("clau"): "", KillTenant("openai"): "",
	} {
		set, _ := Kills{}.With(Kill{Scope: scope, On: true, Version: 1})
		var stopped []string
		for _, name := range []string{"acme's gpt", "beta's claude", "beta's gpt"} {
			c := calls[name]
			if k, stops := set.Stops(c[0], []string{c[1]}, []string{c[2]}); stops {
				stopped = append(stopped, name)
				if k.Scope != scope {
					t.Errorf("%s stops %s by %s", scope, name, k.Scope)
				}
			}
		}
		if got := strings.Join(stopped, ", "); got != want {
			t.Errorf("%s stops %q, want %q", scope, got, want)
		}
		off, changed := set.With(Kill{Scope: scope, Version: 2})
		if _, stops := off.Stops("acme", []string{"openai", "anthropic"}, []string{"gpt-4o", "claude"}); stops || !changed {
			t.Errorf("%s still stops after off", scope)
		}
		if _, stops := set.Stops("acme", []string{"openai", "anthropic"}, []string{"gpt-4o", "claude"}); stops != (want != "") {
			t.Errorf("%s: the old set changed", scope)
		}
	}
	both, _ := Kills{}.With(Kill{Scope: KillModel("m"), On: true, Version: 1})
	both, _ = both.With(Kill{Scope: KillAll, On: true, Version: 1})
	if k, _ := both.Stops("t", nil, []string{"m"}); k.Scope != KillAll {
		t.Errorf("the widest is told, not %s", k.Scope)
	}
	if len(both.List()) != 2 || both.List()[0].Scope != KillAll {
		t.Errorf("%v", both.List())
	}
}

// Topic and mirror are read in any order and any number of times: all replicas end with the same set.
func TestKillsConverge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kills := rapid.SliceOf(rapid.Custom(func(t *rapid.T) Kill {
			return Kill{Scope: rapid.SampledFrom([]KillScope{KillAll, KillTenant("a")}).Draw(t, "scope"), On: rapid.Bool().Draw(t, "on"),
				Version: rapid.Int64Range(1, 4).Draw(t, "version")}
		})).Draw(t, "kills")
		var one, other Kills
		for _, k := range kills {
			one, _ = one.With(k)
		}
		for _, k := range rapid.Permutation(append(kills, kills...)).Draw(t, "order") {
			other, _ = other.With(k)
		}
		for _, scope := range []KillScope{KillAll, KillTenant("a")} {
			a, knownA := one.Get(scope)
			b, knownB := other.Get(scope)
			if a != b || knownA != knownB {
				t.Fatalf("%+v and %+v", a, b)
			}
		}
	})
}
