package main

import (
	"strings"
	"testing"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/usageevent"
)

// letter is a dead letter as the attributor writes it.
func letter(value string) bus.Record {
	header := func(k, v string) bus.Header { return bus.Header{Key: k, Value: []byte(v)} }
	r := bus.NewRecord(topics.UsageDeadletter, "acme", []byte("acme"), []byte(value), header("content-type", "application/json"),
		header("weir-dlq-reason", "malformed"), header("weir-dlq-detail", "no JSON"), header("weir-dlq-topic", "usage.events.v1"),
		header("weir-dlq-partition", "2"), header("weir-dlq-offset", "7"))
	r.Partition = 3
	return r
}

func TestDeadLetters(t *testing.T) {
	conn := broker(t)
	if a := weir(t, "", "dlq", "list", "--json"); a.code != 0 || !strings.Contains(a.out, `"dead_letters": []`) {
		t.Errorf("none: %+v", a)
	}
	produce(t, conn, letter(`{"id": "e-1"`), letter(`{"id": "e-2", "x": 1}`))
	if a := weir(t, "", "dlq", "list"); a.code != 0 || !strings.Contains(a.out, "3:0") || !strings.Contains(a.out, "malformed") || !strings.Contains(a.out, "e-2") {
		t.Errorf("%+v", a)
	}
	a := weir(t, "", "dlq", "show", "3:1")
	for _, want := range []string{"reason  malformed", "detail  no JSON", "source  usage.events.v1/2/7", "header  content-type: application/json", `{"id": "e-2", "x": 1}`} {
		if !strings.Contains(a.out, want) {
			t.Errorf("no %q in %+v", want, a)
		}
	}
	if strings.Contains(a.out, "weir-dlq-") {
		t.Errorf("our own headers are shown as the original's: %s", a.out)
	}
	produce(t, conn, letter(`{"id": 1234567890123}`), letter(`{"id": "e-\u001b[2J"}`))
	if a := weir(t, "", "dlq", "list"); !strings.Contains(a.out, "  1234567890123  ") || strings.Contains(a.out, "\x1b") {
		t.Errorf("ids that are no ids: %q", a.out)
	}
	if a := weir(t, "", "dlq", "show", "3:4"); a.code != 1 || !strings.Contains(a.err, "no dead letter 3:4") {
		t.Errorf("%+v", a)
	}
	if a := weir(t, "", "dlq", "replay", "3:0", "3:4"); a.code != 1 {
		t.Errorf("all or nothing: %+v", a)
	}
	if a := weir(t, "", "dlq", "replay", "3:0", "3:1"); a.code != 0 || a.out != "replayed 2\n" {
		t.Errorf("%+v", a)
	}
	var replayed []bus.Record
	home := bus.PartitionFor([]byte("acme"), topics.UsageEvents.Partitions())
	if err := conn.ReadPartition(t.Context(), topics.UsageEvents, home, -1, -1, func(r bus.Record) error {
		replayed = append(replayed, r)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(replayed) != 2 || string(replayed[0].Value) != `{"id": "e-1"` || len(replayed[0].Headers) != 1 || string(replayed[0].Key) != "acme" {
		t.Errorf("%+v", replayed)
	}
}

// The dead letters of an event are found once each, and what was read is not read again.
func TestLettersOf(t *testing.T) {
	conn := broker(t)
	l := lettersOf{id: "e-1", next: map[int32]int64{}}
	home := letter("").Partition
	for i, want := range []struct {
		batch []bus.Record
		found int
		next  int64
	}{
		{nil, 0, 0},
		{[]bus.Record{letter(`{"id": "e-1"}`), letter(`{"id": "e-2"}`)}, 1, 2},
		{nil, 1, 2},
		{[]bus.Record{letter(`{"id": "e-1"}`)}, 2, 3},
	} {
		if len(want.batch) > 0 {
			produce(t, conn, want.batch...)
		}
		if err := l.more(t.Context(), conn); err != nil || len(l.found) != want.found || l.next[home] != want.next {
			t.Errorf("step %d: %v, found %+v, next %v", i, err, l.found, l.next)
		}
	}
}

// A marker is of one partition, whatever its key says.
func TestReplayOfAMarker(t *testing.T) {
	for p := range int32(topics.UsageEvents.Partitions()) {
		r := letter(string(usageevent.Encode(usageevent.MarkerEvent(usageevent.Marker{Epoch: 9, Phase: usageevent.EpochRaised, Partition: p}))))
		if got := original(r); got.Partition != p || string(got.Key) != "acme" || string(got.Value) != string(r.Value) || len(got.Headers) != 1 {
			t.Errorf("%d: %+v", p, got)
		}
	}
	beyond := letter(string(usageevent.Encode(usageevent.MarkerEvent(usageevent.Marker{Epoch: 9, Phase: usageevent.EpochRaised, Partition: 99}))))
	if got := original(beyond); got.Partition != bus.PartitionFor([]byte("acme"), topics.UsageEvents.Partitions()) {
		t.Errorf("%+v", got)
	}
}
