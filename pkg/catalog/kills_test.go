package catalog

import (
	"testing"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/gen/topics"
)

// The copy follows topic and mirror; a record that does not decode, or a tombstone, lifts nothing.
func TestKills(t *testing.T) {
	bad := 0
	kills := NewKills(func(string, string, error) { bad++ })
	apply := func(value []byte) {
		t.Helper()
		if err := kills.Apply(bus.Record{Topic: topics.ControlKillswitch, Key: []byte("all"), Value: value}); err != nil {
			t.Fatal(err)
		}
	}
	on, err := EncodeKill(admit.Kill{Scope: admit.KillAll, On: true, Version: 5, Reason: "drill"})
	if err != nil {
		t.Fatal(err)
	}
	apply(on)
	apply(nil)
	apply([]byte("nonsense"))
	apply([]byte{0x0a, 0x03, 'x', 'y', 'z'})
	k, stops := kills.Set().Stops("acme", nil, nil)
	if !stops || k.Reason != "drill" || bad != 2 {
		t.Errorf("%+v %v, %d bad", k, stops, bad)
	}
	if kills.Merge(admit.Kill{Scope: admit.KillAll, Version: 4}) {
		t.Error("an older word of the mirror was news")
	}
	if !kills.Merge(admit.Kill{Scope: admit.KillAll, Version: 6}, admit.Kill{Scope: admit.KillTenant("beta"), On: true, Version: 1}) {
		t.Error("a newer word of the mirror was no news")
	}
	apply(on)
	if _, stops := kills.Set().Stops("acme", nil, nil); stops {
		t.Error("an older record came back")
	}
	if _, stops := kills.Set().Stops("beta", nil, nil); !stops {
		t.Error("beta is not stopped")
	}
	if _, err := EncodeKill(admit.Kill{Scope: "nonsense", Version: 1}); err == nil {
		t.Error("a kill without a scope was encoded")
	}
}

// FuzzDecodeKill: no bytes make the decoder panic, and what it accepts can be kept.
func FuzzDecodeKill(f *testing.F) {
	good, err := EncodeKill(admit.Kill{Scope: admit.KillModel("gpt-4o"), On: true, Version: 1 << 50, Reason: "x"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte{0xff})
	f.Fuzz(func(t *testing.T, value []byte) {
		k, err := DecodeKill(value)
		if err != nil {
			return
		}
		if _, err := EncodeKill(k); err != nil {
			t.Errorf("accepted, but %v", err)
		}
	})
}
