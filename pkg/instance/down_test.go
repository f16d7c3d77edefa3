package instance

import "testing"

// Goal: with a hung service and a hung part `weir down` ends in time, and has some of it left for the seal. Its bounds are added
// up: that each of them is kept, the tests of part and TestLife of the command show.
func TestDownIsBounded(t *testing.T) {
	if left := downWithin - serviceGrace - partGrace - 2*endWithin; left < 2*endWithin {
		t.Errorf("%s are left for the seal", left)
	}
}
