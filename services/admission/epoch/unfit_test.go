package epoch

import (
	"errors"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/budgetstore"
)

// Goal: a replica is unfit where Redis refuses, or where clocks are certainly further apart than scripts allow, whatever
// the answer took on its way.
func TestUnfit(t *testing.T) {
	asked := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		redis budgetstore.Standing
		took  time.Duration
		want  error
	}{
		"the same":                {clock(asked), 0, nil},
		"does not say":            {budgetstore.Standing{}, 0, nil},
		"2 s ahead":               {clock(asked.Add(2 * time.Second)), 0, nil},
		"more ahead":              {clock(asked.Add(2*time.Second + 1)), 0, budgetstore.ErrClockSkew},
		"2 s behind":              {clock(asked.Add(-2 * time.Second)), 0, nil},
		"more behind":             {clock(asked.Add(-2*time.Second - 1)), 0, budgetstore.ErrClockSkew},
		"a slow answer":           {clock(asked.Add(4 * time.Second)), 5 * time.Second, nil},
		"a slow one, and ahead":   {clock(asked.Add(8 * time.Second)), 5 * time.Second, budgetstore.ErrClockSkew},
		"a slow one, and behind":  {clock(asked.Add(-3 * time.Second)), 5 * time.Second, budgetstore.ErrClockSkew},
		"one of several":          {clock(asked, asked.Add(time.Hour)), 0, budgetstore.ErrClockSkew},
		"refuses":                 {budgetstore.Standing{Refuses: budgetstore.ErrReplica}, 0, budgetstore.ErrReplica},
		"refuses, clock is right": {budgetstore.Standing{Refuses: budgetstore.ErrReplica, Clocks: []time.Time{asked}}, 0, budgetstore.ErrReplica},
	} {
		if err := unfit(c.redis, asked, asked.Add(c.took)); !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func clock(at ...time.Time) budgetstore.Standing { return budgetstore.Standing{Clocks: at} }
