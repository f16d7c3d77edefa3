package budgetaggregator

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/domain/ledger"
	"github.com/weir-project/weir/pkg/domain/window"
	"github.com/weir-project/weir/pkg/gen/weirv1"
	"github.com/weir-project/weir/pkg/ledgercodec"
)

// mark writes a marker into one partition of the journal.
func mark(t testing.TB, m *memory, partition int32, epoch int64, phase ledger.Phase, at time.Time) {
	t.Helper()
	if err := m.Produce(t.Context(), marker(t, partition, epoch, phase, at)); err != nil {
		t.Fatal(err)
	}
}

func marker(t testing.TB, partition int32, epoch int64, phase ledger.Phase, at time.Time) bus.Record {
	t.Helper()
	r, err := ledgercodec.Record(ledger.NewMarker(fmt.Sprintf("epoch:%d:%s:%d", epoch, phase, partition), ledger.Marker{Epoch: epoch, Phase: phase}, at,
		ledger.Position{Topic: "usage.events.v1", Partition: partition}))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// spread moves a third of the entries up to 100 days back, so that every limit of a base is crossed.
func spread(rng *rand.Rand, entries []ledger.Entry) {
	for i := range entries {
		if rng.IntN(3) == 0 {
			entries[i].EventTime = entries[i].EventTime.Add(-time.Duration(rng.IntN(100*24)) * time.Hour)
			entries[i].Windows = window.KeysAt(entries[i].EventTime, time.UTC)
		}
	}
}

// wantBase recomputes a base from the entries before its marker, with none of the code under test.
func wantBase(entries []ledger.Entry, epoch int64, at time.Time) map[string]string {
	latest := map[string]time.Time{}
	for _, e := range entries {
		keys := []string{e.TenantID + "\x00execution\x00" + e.Lineage.RootExecutionID}
		for _, s := range e.Scopes {
			if s.Kind == window.Branch {
				keys = append(keys, e.TenantID+"\x00execution_branch\x00"+s.ID)
			}
		}
		for _, k := range keys {
			if e.EventTime.After(latest[k]) {
				latest[k] = e.EventTime
			}
		}
	}
	out := map[string]string{}
	for k, text := range recompute(entries) {
		parts := strings.Split(k, "\x00")
		kind, label := parts[1], parts[2]
		if len(parts) == 5 {
			kind, label = parts[3], parts[4]
		}
		in := false
		switch kind {
		case "minute":
			begin, _ := strconv.ParseInt(label, 10, 64)
			in = time.Unix(begin, 0).Add(time.Minute).After(at.Add(-10 * time.Minute))
		case "day":
			in = label >= at.AddDate(0, 0, -32).Format("20060102")
		case "month":
			yesterday := at.AddDate(0, 0, -1)
			in = label >= yesterday.AddDate(0, 0, 1-yesterday.Day()).AddDate(0, -2, 0).Format("200601")
		case "execution", "execution_branch":
			in = !latest[k].Before(at.Add(-8 * 24 * time.Hour))
		}
		if in {
			out[parts[0]+"\x00base\x00"+fmt.Sprint(epoch)+"\x00"+strings.Join(parts[1:], "\x00")] = text
		}
	}
	return out
}

// expected is what must be known of a partition's base: its marker's offset and its totals.
type expected struct {
	epoch, offset int64
	totals        map[string]string
}

// expect reads the bases that the journal of a partition asks for.
func expect(t testing.TB, records []bus.Record) []expected {
	t.Helper()
	var out []expected
	var before []ledger.Entry
	for i, r := range records {
		e, err := ledgercodec.Unmarshal(r.Value)
		switch {
		case err != nil:
			t.Fatal(err)
		case !e.IsMarker():
			before = append(before, e)
		case e.Marker.Phase == ledger.Raised:
			out = append(out, expected{e.Marker.Epoch, int64(i), wantBase(before, e.Marker.Epoch, e.RecordedAt)})
		}
	}
	return out
}

// checkBases walks an output partition as a reader does: at an end that tells of as many totals as it has met the base is
// complete and right; afterwards it never changes; and finally only the last epoch's is left. An end that tells of more is
// passed over: what was written again behind it is no longer before it after a compaction, and another end follows.
func checkBases(t testing.TB, output []bus.Record, want []expected) string {
	t.Helper()
	of := map[int64]expected{}
	for _, w := range want {
		of[w.epoch] = w
	}
	live, ended, complete := map[string]string{}, map[int64]bool{}, map[int64]bool{}
	for _, r := range output {
		key := string(r.Key)
		if r.Value == nil {
			delete(live, key)
			continue
		}
		_, _, m, err := decode(r.Value)
		if err != nil || m.GetBaseEpoch() == 0 {
			continue
		}
		w, known := of[m.GetBaseEpoch()]
		if !known || m.GetVersion() != w.offset+1 {
			return fmt.Sprintf("%q has version %d, want %d", key, m.GetVersion(), w.offset+1)
		}
		if m.GetKind() == weirv1.WindowKind_WINDOW_KIND_BASE_END {
			if int(m.GetEntries()) != len(w.totals) || key != fmt.Sprintf("\x00base\x00%d\x00end", w.epoch) {
				return fmt.Sprintf("%q tells of %d totals, want %d", key, m.GetEntries(), len(w.totals))
			}
			ended[w.epoch], live[key] = true, "end"
			complete[w.epoch] = complete[w.epoch] || len(baseOf(live, w.epoch)) == len(w.totals)
		} else if live[key] = summed(t, m); ended[w.epoch] && live[key] != w.totals[key] {
			return fmt.Sprintf("%q changed after the end to %s, want %s", key, live[key], w.totals[key])
		}
		if complete[w.epoch] {
			if d := different(baseOf(live, w.epoch), w.totals); d != "" {
				return fmt.Sprintf("at the end of base %d: %s", w.epoch, d)
			}
		}
	}
	for i, w := range want {
		left := baseOf(live, w.epoch)
		if i < len(want)-1 && len(left) > 0 {
			return fmt.Sprintf("%d totals of epoch %d were not removed", len(left), w.epoch)
		}
		if i == len(want)-1 {
			if d := different(left, w.totals); d != "" || !complete[w.epoch] {
				return fmt.Sprintf("base %d, ended %v, complete %v: %s", w.epoch, ended[w.epoch], complete[w.epoch], d)
			}
		}
	}
	return ""
}

// baseOf are the live totals of one epoch, or of its end alone nothing.
func baseOf(live map[string]string, epoch int64) map[string]string {
	out := map[string]string{}
	for k, text := range live {
		if strings.Contains(k, fmt.Sprintf("\x00base\x00%d\x00", epoch)) && text != "end" {
			out[k] = text
		}
	}
	return out
}
