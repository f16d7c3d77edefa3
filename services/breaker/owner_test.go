package breaker

import (
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/domain/ledger"
	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/ledgercodec"
)

// The end of an execution is booked in the name of the root's own agent, whichever descendant's call was the last straw.
func TestTerminationNamesTheRootsAgent(t *testing.T) {
	child, lead := entry(1, "acme", "x", 1_000_000_000), entry(2, "acme", "x", 1_000_000_000)
	lead.Lineage = ledger.Lineage{RootExecutionID: "x", AgentID: "lead", CostCenter: "sales"}
	last := entry(3, "acme", "x", 9_000_000_000)
	for _, c := range []struct {
		entries []ledger.Entry
		want    owner
	}{{[]ledger.Entry{child, lead, last}, owner{"lead", "sales"}}, {[]ledger.Entry{child, last}, owner{}}} {
		b := newBook(&room{bound: 10}, 0, func() time.Time { return start.Add(time.Hour) })
		for i, e := range c.entries {
			r, err := ledgercodec.Record(e)
			if err != nil {
				t.Fatal(err)
			}
			r.Offset = int64(i)
			if _, _, err := b.take(r, func(string, time.Time) tenant.Execution { return limits }); err != nil {
				t.Fatal(err)
			}
		}
		if len(b.pending) != 1 {
			t.Fatalf("%d trips", len(b.pending))
		}
		ev := decodeEvent(t, termination(secret(t), b.pending[0]))
		if got := (owner{ev.Data.AgentID, ev.Data.CostCenter}); got != c.want {
			t.Errorf("%+v, want %+v", got, c.want)
		}
	}
}
