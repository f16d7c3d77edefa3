package ladder

import (
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/weir-project/weir/pkg/domain/money"
)

const dollar = money.Nano(1_000_000_000)

func TestAt(t *testing.T) {
	for _, c := range []struct {
		used, ceiling money.Nano
		t             Thresholds
		want          Rung
	}{
		{0, 10 * dollar, Default(), 0},
		{5*dollar - 1, 10 * dollar, Default(), 0},
		{5 * dollar, 10 * dollar, Default(), 1},
		{8*dollar - 1, 10 * dollar, Default(), 1},
		{8 * dollar, 10 * dollar, Default(), 2},
		{10*dollar - 1, 10 * dollar, Default(), 2},
		{10 * dollar, 10 * dollar, Default(), 3},
		{11 * dollar, 10 * dollar, Default(), 3},
		{-dollar, 10 * dollar, Default(), 0},
		// Field report 49: a 99 % step of $15.00 begins at $14.85, not at $0.40.
		{400_000_000, 15 * dollar, Thresholds{50, 80, 99}, 0},
		{14_849_999_999, 15 * dollar, Thresholds{50, 80, 99}, 2},
		{14_850_000_000, 15 * dollar, Thresholds{50, 80, 99}, 3},
		// A threshold between two nano-dollars begins at the next.
		{1, 3, Default(), 0}, {2, 3, Default(), 1}, {3, 3, Default(), 3},
		{0, 0, Default(), 3},
		{money.MaxNano / 2, money.MaxNano, Default(), 0}, {money.MaxNano/2 + 1, money.MaxNano, Default(), 1}, {money.MaxNano, money.MaxNano, Default(), 3},
		{5, 10, Thresholds{50, 50, 100}, 2},
	} {
		if got := At(c.used, c.ceiling, c.t); got != c.want {
			t.Errorf("At(%d, %d, %v) = %d, want %d", c.used, c.ceiling, c.t, got, c.want)
		}
	}
}

func TestPercent(t *testing.T) {
	for _, c := range []struct {
		used, ceiling money.Nano
		want          int64
	}{
		{0, 100, 0}, {-5, 100, 0}, {99, 10_000, 0}, {100, 10_000, 1}, {14_849_999_999, 15 * dollar, 98}, {14_850_000_000, 15 * dollar, 99},
		{110, 100, 110}, {5, 0, 100}, {money.MaxNano, money.MaxNano, 100}, {money.MaxNano, 1, int64(money.MaxNano)},
	} {
		if got := Percent(c.used, c.ceiling); got != c.want {
			t.Errorf("Percent(%d, %d) = %d, want %d", c.used, c.ceiling, got, c.want)
		}
	}
}

// The steps are what the definition says, in big integers.
func TestStepsAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ceiling := rapid.Int64Range(1, int64(money.MaxNano)).Draw(t, "ceiling")
		used := rapid.Int64Range(0, int64(money.MaxNano)).Draw(t, "used")
		p := rapid.Int32Range(1, 100).Draw(t, "percent")
		reached := new(big.Int).Mul(big.NewInt(used), big.NewInt(100)).Cmp(new(big.Int).Mul(big.NewInt(ceiling), big.NewInt(int64(p)))) >= 0
		if got := money.Nano(used) >= Steps(money.Nano(ceiling), Thresholds{p, p, p})[0]; got != reached {
			t.Fatalf("%d of %d at %d %%: %v, want %v", used, ceiling, p, got, reached)
		}
	})
}

func TestModes(t *testing.T) {
	for r, want := range []string{"normal", "caching", "saving", "read_only", "cut"} {
		if got := Rung(r).Mode(); got != want {
			t.Errorf("rung %d: %s", r, got)
		}
	}
}
