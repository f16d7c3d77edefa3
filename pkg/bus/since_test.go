package bus_test

import (
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/bus"
)

// OffsetsSince finds the first record of a time, also where timestamps go back; the end where there is none.
func TestOffsetsSince(t *testing.T) {
	topic := testTopic("since", 2)
	k := startKafka(t, topic)
	conn, _ := k.connect("writer")
	p := newProducer(t, conn, topic)
	start := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	for _, minutes := range []int{0, 10, 5, 20} {
		r := bus.Record{Topic: topic, Partition: 1, Value: []byte("x"), Timestamp: start.Add(time.Duration(minutes) * time.Minute)}
		if err := p.Produce(within(t), r); err != nil {
			t.Fatal(err)
		}
	}
	for minutes, want := range map[int]int64{-5: 0, 0: 0, 1: 1, 10: 1, 11: 3, 21: 4} {
		got, err := k.admin().OffsetsSince(within(t), topic, start.Add(time.Duration(minutes)*time.Minute))
		if err != nil || got[1] != want || got[0] != 0 {
			t.Errorf("since minute %d: %v, %v, want %d", minutes, got, err, want)
		}
	}
}
