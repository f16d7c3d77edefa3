package catalog

import (
	"fmt"
	"sync/atomic"

	"google.golang.org/protobuf/proto"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/gen/weirv1"
)

// Kills is the current copy of control.killswitch.v1, joined with what else is known of it (Merge). Safe for concurrent
// use; bounded by admit.MaxKills, which the writer of the topic keeps.
type Kills struct {
	bad Bad
	set atomic.Pointer[admit.Kills]
}

// NewKills is an empty copy; feed it with Apply through bus.Follow.
func NewKills(bad Bad) *Kills {
	k := &Kills{bad: bad}
	k.set.Store(&admit.Kills{})
	return k
}

// Set is what is known now; it never changes, a later call may return another.
func (k *Kills) Set() admit.Kills { return *k.set.Load() }

// Apply takes one record of control.killswitch.v1; it never fails. A tombstone lifts nothing: only a newer "off" does.
func (k *Kills) Apply(r bus.Record) error {
	if r.Value == nil {
		return nil
	}
	kill, err := DecodeKill(r.Value)
	if err != nil {
		k.bad(r.Topic.Name(), string(r.Key), err)
		return nil
	}
	k.Merge(kill)
	return nil
}

// Merge adds kills that came another way, and reports whether one of them was news.
func (k *Kills) Merge(kills ...admit.Kill) (changed bool) {
	for {
		old := k.set.Load()
		set, news := *old, false
		for _, kill := range kills {
			var one bool
			set, one = set.With(kill)
			news = news || one
		}
		if !news || k.set.CompareAndSwap(old, &set) {
			return news
		}
	}
}

// EncodeKill is the value of control.killswitch.v1; its key is the scope.
func EncodeKill(k admit.Kill) ([]byte, error) {
	if err := k.Validate(); err != nil {
		return nil, err
	}
	m := &weirv1.KillSwitch{Scope: string(k.Scope), On: k.On, Reason: k.Reason, Version: k.Version}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode kill of %s: %w", k.Scope, err)
	}
	return b, nil
}

// DecodeKill reads a value of control.killswitch.v1.
func DecodeKill(value []byte) (admit.Kill, error) {
	m := new(weirv1.KillSwitch)
	if err := proto.Unmarshal(value, m); err != nil {
		return admit.Kill{}, fmt.Errorf("kill switch: %w", err)
	}
	k := admit.Kill{Scope: admit.KillScope(m.GetScope()), On: m.GetOn(), Reason: m.GetReason(), Version: m.GetVersion()}
	return k, k.Validate()
}
