package admission

import (
	"slices"
	"testing"

	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/usageevent"
)

// Goal: what a hold keeps of branches is read back, and fits however many there are; what is not ours is none.
func TestBranchesAreKept(t *testing.T) {
	var list []admit.Branch
	for i := range admit.MaxBranches {
		id, err := newBranch(ones{})
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, admit.Branch{ID: id, MaxCost: money.MaxNano - money.Nano(i)})
		c := call{Branches: branchText(list)}
		if got := c.branches(); !slices.Equal(got, list) || len(c.branchIDs()) != len(list) {
			t.Errorf("%+v, want %+v", got, list)
		}
	}
	if n := len(branchText(list)); n > 400 {
		t.Errorf("%d bytes", n)
	}
	if branchText(nil) != "" || (call{}).branches() != nil || (call{Branches: "b_1 x"}).branches() != nil {
		t.Error("no branches")
	}
	if usageevent.MaxBranches != admit.MaxBranches {
		t.Errorf("an event has %d, a call %d", usageevent.MaxBranches, admit.MaxBranches)
	}
}

// ones is randomness that is none.
type ones struct{}

func (ones) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 1
	}
	return len(b), nil
}
