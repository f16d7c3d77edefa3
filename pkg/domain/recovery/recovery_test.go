package recovery

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestJudge(t *testing.T) {
	const e = int64(1) << 40
	a, b := []string{"a"}, []string{"b"}
	ready := Row{Epoch: e, ReplicationIDs: a}
	for name, c := range map[string]struct {
		row    Row
		redis  Redis
		want   Verdict
		reason Reason
	}{
		"whole":                          {ready, Redis{Epoch: e, ReplicationIDs: a}, Serve, ""},
		"one shard of two asked":         {Row{Epoch: e, ReplicationIDs: []string{"a", "b"}}, Redis{Epoch: e, ReplicationIDs: b}, Serve, ""},
		"a new master beside a known":    {ready, Redis{Epoch: e, ReplicationIDs: []string{"a", "c"}}, Raise, Restarted},
		"no id at all":                   {ready, Redis{Epoch: e}, Raise, Restarted},
		"ids not known yet":              {Row{Epoch: e}, Redis{Epoch: e, ReplicationIDs: a}, Adopt, ""},
		"its first replica came":         {ready, Redis{Epoch: e, ReplicationIDs: b, Unbroken: true}, Adopt, ""},
		"unbroken, but emptied":          {ready, Redis{ReplicationIDs: b, Unbroken: true}, Raise, Emptied},
		"emptied":                        {ready, Redis{ReplicationIDs: a}, Raise, Emptied},
		"emptied, ids not known yet":     {Row{Epoch: e}, Redis{ReplicationIDs: a}, Raise, Emptied},
		"old snapshot":                   {ready, Redis{Epoch: e - 1, ReplicationIDs: b}, Raise, RolledBack},
		"restarted":                      {ready, Redis{Epoch: e, ReplicationIDs: b}, Raise, Restarted},
		"restarted as planned":           {Row{Epoch: e, ReplicationIDs: a, Seal: "s"}, Redis{Epoch: e, ReplicationIDs: b, Seal: "s"}, Unseal, ""},
		"another seal":                   {Row{Epoch: e, ReplicationIDs: a, Seal: "s"}, Redis{Epoch: e, ReplicationIDs: b, Seal: "t"}, Raise, Restarted},
		"a seal that was used up":        {ready, Redis{Epoch: e, ReplicationIDs: b, Seal: "s"}, Raise, Restarted},
		"sealed, but emptied":            {Row{Epoch: e, ReplicationIDs: a, Seal: "s"}, Redis{ReplicationIDs: b}, Raise, Emptied},
		"sealed, never stopped":          {Row{Epoch: e, ReplicationIDs: a, Seal: "s"}, Redis{Epoch: e, ReplicationIDs: a, Seal: "s"}, Serve, ""},
		"another Weir":                   {ready, Redis{Epoch: 7, ReplicationIDs: a}, Refuse, Foreign},
		"another Weir, later":            {ready, Redis{Epoch: 3 * e, ReplicationIDs: a}, Refuse, Foreign},
		"Postgres went back":             {ready, Redis{Epoch: e + 1, ReplicationIDs: a}, Refuse, Ahead},
		"raised, empty":                  {Row{Epoch: e, Recovering: true}, Redis{ReplicationIDs: a}, Begin, ""},
		"raised, with old counters":      {Row{Epoch: e, Recovering: true}, Redis{Epoch: e - 1, ReplicationIDs: a}, Begin, ""},
		"raised, half begun":             {Row{Epoch: e, Recovering: true}, Redis{Epoch: e, ReplicationIDs: a}, Begin, ""},
		"raised, but another Weir's":     {Row{Epoch: e, Recovering: true}, Redis{Epoch: 7, ReplicationIDs: a}, Refuse, Foreign},
		"recovering":                     {Row{Epoch: e, Recovering: true, ReplicationIDs: a}, Redis{Epoch: e, ReplicationIDs: a}, Recover, ""},
		"emptied again in the middle":    {Row{Epoch: e, Recovering: true, ReplicationIDs: a}, Redis{ReplicationIDs: a}, Raise, Emptied},
		"restarted again in the middle":  {Row{Epoch: e, Recovering: true, ReplicationIDs: a}, Redis{Epoch: e, ReplicationIDs: b}, Raise, Restarted},
		"rolled back in the middle":      {Row{Epoch: e, Recovering: true, ReplicationIDs: a}, Redis{Epoch: e - 1, ReplicationIDs: a}, Raise, RolledBack},
		"an earlier layout":              {Row{Epoch: e, ReplicationIDs: a, Layout: -1}, Redis{Epoch: e, ReplicationIDs: a}, Raise, Earlier},
		"an earlier one, sealed":         {Row{Epoch: e, ReplicationIDs: a, Layout: -1, Seal: "s"}, Redis{Epoch: e, ReplicationIDs: b, Seal: "s"}, Raise, Earlier},
		"an earlier one is being made":   {Row{Epoch: e, ReplicationIDs: a, Layout: -1, Recovering: true}, Redis{Epoch: e, ReplicationIDs: a}, Raise, Earlier},
		"an earlier one is to be made":   {Row{Epoch: e, Layout: -1, Recovering: true}, Redis{}, Raise, Earlier},
		"earlier, of another Weir":       {Row{Epoch: e, ReplicationIDs: a, Layout: -1}, Redis{Epoch: 7, ReplicationIDs: a}, Refuse, Foreign},
		"a later layout":                 {Row{Epoch: e, ReplicationIDs: a, Layout: 1}, Redis{Epoch: e, ReplicationIDs: a}, Refuse, Later},
		"a later one, emptied":           {Row{Epoch: e, ReplicationIDs: a, Layout: 1}, Redis{ReplicationIDs: a}, Refuse, Later},
		"a later one is to be made":      {Row{Epoch: e, Layout: 1, Recovering: true}, Redis{Epoch: e - 1, ReplicationIDs: a}, Refuse, Later},
		"far below, but nothing is left": {Row{Epoch: e, ReplicationIDs: a}, Redis{ReplicationIDs: b, Seal: "s"}, Raise, Emptied},
	} {
		if got, reason := Judge(c.row, c.redis); got != c.want || reason != c.reason {
			t.Errorf("%s: %v %q, want %v %q", name, got, reason, c.want, c.reason)
		}
	}
}

// A loss is taken on this replica's word alone only in the Redis of the epoch itself, or in the one that was promoted in its
// place.
func TestCertain(t *testing.T) {
	row := Row{Epoch: 7, ReplicationIDs: []string{"a", "b"}}
	for name, c := range map[string]struct {
		redis Redis
		want  bool
	}{
		"the same, emptied":        {Redis{ReplicationIDs: []string{"a", "b"}}, true},
		"promoted":                 {Redis{Epoch: 7, ReplicationIDs: []string{"c"}, Formerly: []string{"a"}}, true},
		"promoted elsewhere":       {Redis{Epoch: 7, ReplicationIDs: []string{"c"}, Formerly: []string{"x"}}, false},
		"restarted, or another":    {Redis{Epoch: 7, ReplicationIDs: []string{"c"}}, false},
		"an old one":               {Redis{Epoch: 6, ReplicationIDs: []string{"c"}}, false},
		"another one, empty":       {Redis{ReplicationIDs: []string{"c"}}, false},
		"one of two is another":    {Redis{Epoch: 7, ReplicationIDs: []string{"a", "c"}}, false},
		"nothing known of masters": {Redis{}, false},
	} {
		if got := Certain(row, c.redis); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Whatever the two say, a Redis is served from only with the epoch of a ready row and masters that belong to it; and a
// Redis of somebody else is never changed.
func TestJudgeIsSafe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		epoch := rapid.SampledFrom([]int64{0, 5, 1 << 30, 1<<30 + 1, 1 << 50})
		ids := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 2)
		seal := rapid.SampledFrom([]string{"", "s", "t"})
		row := Row{Epoch: max(1, epoch.Draw(t, "row")), Recovering: rapid.Bool().Draw(t, "recovering"), Layout: rapid.IntRange(-1, 1).Draw(t, "layout"), ReplicationIDs: ids.Draw(t, "belong"), Seal: seal.Draw(t, "seal")}
		redis := Redis{Epoch: epoch.Draw(t, "redis"), ReplicationIDs: ids.Draw(t, "ids"), Seal: seal.Draw(t, "its seal"), Unbroken: rapid.Bool().Draw(t, "unbroken")}
		verdict, _ := Judge(row, redis)
		whole := !row.Recovering && redis.Epoch == row.Epoch
		if row.Layout != 0 && verdict != Refuse && verdict != Raise || row.Layout > 0 && verdict != Refuse {
			t.Fatal("counters of another layout would be read or written")
		}
		switch verdict {
		case Serve:
			if !whole || !known(redis.ReplicationIDs, row.ReplicationIDs) {
				t.Fatal("served from what may have lost writes")
			}
		case Adopt:
			if !whole || len(row.ReplicationIDs) > 0 && !redis.Unbroken {
				t.Fatal("adopted")
			}
		case Unseal:
			if redis.Epoch != row.Epoch || row.Seal == "" || row.Seal != redis.Seal {
				t.Fatal("unsealed without the seal")
			}
		case Begin, Raise, Recover:
			if redis.Epoch > row.Epoch || redis.Epoch != 0 && row.Epoch-redis.Epoch > ownEpochs {
				t.Fatal("somebody else's Redis would be written to")
			}
		}
	})
}

// The steps come in their order, each once, and from wherever a coordinator takes over.
func TestNext(t *testing.T) {
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	p := Progress{Now: at, LeasesEnd: at.Add(time.Second)}
	for _, step := range []struct {
		want Step
		do   func()
	}{
		{Wait, func() { p.Now = p.LeasesEnd }}, {Wait, func() { p.Shown = true }}, {Barrier, func() { p.Barrier = true }}, {Load, func() { p.Loaded = true }},
		{Apply, func() { p.Applied = true }}, {Limits, func() { p.Limited = true }}, {Verify, func() { p.Verified = true }},
		{Finish, func() { p.Finished = true }}, {Done, func() {}},
	} {
		if got := Next(p); got != step.want || got.String() == "" {
			t.Fatalf("%v, want %v", got, step.want)
		}
		step.do()
	}
	taken := Progress{Now: at, LeasesEnd: at.Add(time.Hour), Barrier: true}
	if got := Next(taken); got != Load {
		t.Errorf("a coordinator that takes over behind the barrier does %v", got)
	}
}

func TestRetryAfter(t *testing.T) {
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct{ left, want time.Duration }{
		{0, 2 * time.Second}, {-time.Hour, 2 * time.Second}, {5 * time.Second, 7 * time.Second}, {time.Hour, 30 * time.Second},
	} {
		if got := RetryAfter(at, at.Add(c.left)); got != c.want {
			t.Errorf("%s left: %s, want %s", c.left, got, c.want)
		}
	}
	if got := RetryAfter(at, time.Time{}); got != 2*time.Second {
		t.Errorf("not known: %s", got)
	}
	if got := LeasesEnd(at, 2*time.Minute+time.Second); !got.Equal(at.Add(2*time.Minute + 3*time.Second)) {
		t.Errorf("leases end at %s", got)
	}
}
