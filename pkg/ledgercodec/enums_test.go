package ledgercodec

import (
	"testing"

	"github.com/weir-project/weir/pkg/gen/weirv1"
)

// Goal: no value of the schema is forgotten: each but the unspecified one has its own value here. Scopes are told elsewhere:
// the schema has kinds that are no sub-scopes.
func TestEnumsAreWhole(t *testing.T) {
	whole(t, kinds, weirv1.EntryKind_name)
	whole(t, statuses, weirv1.CallStatus_name)
	whole(t, ownModes, weirv1.OwnMode_name)
	whole(t, phases, weirv1.EpochPhase_name)
}

func whole[Ours ~string, Wire ~int32](t *testing.T, e enum[Ours, Wire], names map[int32]string) {
	t.Helper()
	for number, name := range names {
		if v := Wire(number); e.encode(e.decode(v)) != v || (e.decode(v) == "") != (number == 0) {
			t.Errorf("%s is %q", name, e.decode(v))
		}
	}
}
