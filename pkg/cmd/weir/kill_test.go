package main

import (
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/domain/admit"
)

// callsOfKill are the exit codes of `weir kill` without an instance.
func callsOfKill() []call {
	return []call{
		{"kill", 0, ""}, {"kill onn", 2, "did you mean"}, {"kill on", 2, "one of --all"}, {"kill on --all --tenant a", 2, "one of --all"},
		{"kill on acme", 2, "usage"}, {"kill on --all --reason " + strings.Repeat("x", 257), 2, "256"},
		{"kill on --all", 3, "no instance"}, {"kill off", 2, "one of --all"}, {"kill off --all", 3, "no instance"}, {"kill list", 3, "no instance"}, {"kill list x", 2, "usage"},
	}
}

func TestKillOverTheBroker(t *testing.T) {
	broker(t)
	if a := weir(t, "", "kill", "off", "--all"); a.code != 1 || !strings.Contains(a.err, "not stopped") {
		t.Errorf("%+v", a)
	}
	a := weir(t, "", "kill", "on", "--provider", "openai", "--reason", "keys leaked", "--json")
	first := decodeJSON[killView](t, a)
	if a.code != 0 || first.Scope != "provider:openai" || !first.On || first.Reason != "keys leaked" || time.Since(first.ChangedAt) > time.Minute {
		t.Errorf("%+v", a)
	}
	if a := weir(t, "", "kill", "on", "--all"); a.code != 0 || a.out != "all stopped\n" {
		t.Errorf("%+v", a)
	}
	if a := weir(t, "", "kill", "off", "--provider", "openai"); a.code != 0 || a.out != "provider:openai let go\n" {
		t.Errorf("%+v", a)
	}
	if a := weir(t, "", "kill", "off", "--provider", "openai"); a.code != 1 || a.out != "" || !strings.Contains(a.err, "not stopped") {
		t.Errorf("what is off already: %+v", a)
	}
	kills := decodeJSON[struct{ Kills []killView }](t, weir(t, "", "kill", "list", "--json")).Kills
	if len(kills) != 2 || kills[0].Scope != "all" || !kills[0].On || kills[1].On || !kills[1].ChangedAt.After(first.ChangedAt) {
		t.Errorf("%+v", kills)
	}
	if a := weir(t, "", "kill", "list"); a.code != 0 || !strings.Contains(a.out, "all              STOPPED") {
		t.Errorf("%+v", a)
	}
}

// A clock that is behind must not write a kill that loses against the older one.
func TestKillVersionRises(t *testing.T) {
	broker(t)
	a := &app{}
	var out strings.Builder
	future := time.Now().Add(time.Hour)
	for _, k := range []struct {
		on  bool
		now time.Time
	}{{true, future}, {false, time.Now()}, {true, time.Now()}} {
		if err := a.killSwitch(t.Context(), &out, admit.Kill{Scope: admit.KillAll, On: k.on}, k.now); err != nil {
			t.Fatal(err)
		}
	}
	kills := decodeJSON[struct{ Kills []killView }](t, weir(t, "", "kill", "list", "--json")).Kills
	if len(kills) != 1 || !kills[0].On || kills[0].ChangedAt.UnixMicro() != future.UnixMicro()+2 {
		t.Errorf("%+v", kills)
	}
}
