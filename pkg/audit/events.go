package audit

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"strconv"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/usageevent"
)

// Headers that the attributor writes (pkg/usageevent knows the event, not its way).
const (
	headerRerouted     = "weir-rerouted"
	headerDeadLetterAt = "weir-dlq-"
)

// eventCheck holds every usage event against journal and dead letters.
type eventCheck struct {
	*journal
	dead     map[position][]byte
	seen     map[position]bool
	rerouted map[[sha256.Size]byte]bool // what was published again, to its right partition
	lost     []bus.Record               // found in neither, so far
	report   *Report
}

// checkEvents wants each usage event in one of journal and dead letters, or to be the same as one that is (I3, I4); and
// every entry must come from an event that is in the log.
func checkEvents(ctx context.Context, log *bus.Conn, j *journal, r *Report) error {
	c := &eventCheck{journal: j, dead: map[position][]byte{}, seen: map[position]bool{}, rerouted: map[[sha256.Size]byte]bool{}, report: r}
	if err := c.readDeadLetters(ctx, log); err != nil {
		return err
	}
	if err := readTopic(ctx, log, topics.UsageEvents, c.take); err != nil {
		return err
	}
	for _, rec := range c.lost {
		if c.rerouted[fingerprint(rec)] {
			r.Duplicates++ // the copy in the right partition has been held against the books itself
			continue
		}
		ev, _ := usageevent.Decode(rec.Value, rec.Header) // its id if it can be read
		r.differ("log", fmt.Sprintf("usage event %d/%d %s", rec.Partition, rec.Offset, ev.ID), "a journal entry or a dead letter", "neither")
	}
	return c.checkSources(ctx, log)
}

// checkSources wants the event of every entry in the log, unless retention has taken it.
func (c *eventCheck) checkSources(ctx context.Context, log *bus.Conn) error {
	admin, err := log.Admin()
	if err != nil {
		return err
	}
	defer admin.Close()
	starts, err := admin.StartOffsets(ctx, topics.UsageEvents)
	if err != nil {
		return err
	}
	for _, e := range c.entries {
		at := position{e.GetSourcePartition(), e.GetSourceOffset()}
		if e.GetSourceTopic() == topics.UsageEvents.Name() && at.offset >= starts[at.partition] && !c.seen[at] {
			c.report.differ("journal", e.GetId(), fmt.Sprintf("a usage event at %d/%d", at.partition, at.offset), "none in the log")
		}
	}
	for at := range c.epochs.bySource {
		if at.offset >= starts[at.partition] && !c.seen[at] {
			c.report.differ("journal", fmt.Sprintf("marker of %d/%d", at.partition, at.offset), "its event", "none in the log")
		}
	}
	return nil
}

// take holds one usage event against the books.
func (c *eventCheck) take(rec bus.Record) {
	at := position{rec.Partition, rec.Offset}
	c.seen[at] = true
	ev, err := usageevent.Decode(rec.Value, rec.Header)
	if err == nil && ev.Data.Marker != nil && c.takeMark(at, ev) {
		return
	}
	c.report.Events++
	if _, again := rec.Header(headerRerouted); again {
		c.rerouted[fingerprint(rec)] = true
	}
	what := fmt.Sprintf("usage event %d/%d", at.partition, at.offset)
	if n, ok := c.bySource[at]; ok {
		e := c.entries[n]
		if err != nil || ev.ID != e.GetEventId() || ev.Source != e.GetSource() || !c.sameContent(n, ev) {
			c.report.differ("journal", e.GetId(), what+" with its source, id and content", fmt.Sprintf("%s %s", ev.Source, ev.ID))
			return
		}
		checkEventScopes(e, ev, c.report)
		checkBranches(e, ev, c.report)
		return
	}
	if value, ok := c.dead[at]; ok {
		if !bytes.Equal(value, rec.Value) {
			c.report.differ("dead letters", what, "the original bytes", "others")
		}
		return
	}
	if err == nil && c.counted(ev) {
		c.report.Duplicates++
		return
	}
	c.lost = append(c.lost, rec)
}

// fingerprint identifies what a record says: value and headers, but for the mark of one that was moved.
func fingerprint(rec bus.Record) [sha256.Size]byte {
	h := sha256.New()
	for _, x := range rec.Headers {
		if x.Key != headerRerouted {
			fmt.Fprintf(h, "%q=%q\n", x.Key, x.Value)
		}
	}
	h.Write(rec.Value)
	return [sha256.Size]byte(h.Sum(nil))
}

// counted reports whether the event is in the books through another copy of it: same identity and same content, or the
// same response of a provider. Same identity with other content is none: it must be a dead letter.
func (c *eventCheck) counted(ev usageevent.Event) bool {
	if n, ok := c.events[identity{ev.Subject, ev.Source, ev.ID}]; ok {
		return c.sameContent(n, ev)
	}
	for _, n := range c.anyTenant[[2]string{ev.Source, ev.ID}] {
		if ev.Subject == "" && c.sameContent(n, ev) { // its tenant came from its execution token
			return true
		}
	}
	if ev.Data.ResponseID == "" {
		return false
	}
	provider := providerName(ev.Data.Provider)
	if ev.Subject == "" {
		return c.anyResponse[[2]string{provider, ev.Data.ResponseID}]
	}
	_, ok := c.responses[identity{ev.Subject, provider, ev.Data.ResponseID}]
	return ok
}

func (c *eventCheck) sameContent(n int, ev usageevent.Event) bool {
	hash := usageevent.ContentHash(ev)
	return bytes.Equal(c.entries[n].GetContentHash(), hash[:])
}

// readDeadLetters maps the place of each original to its bytes.
func (c *eventCheck) readDeadLetters(ctx context.Context, log *bus.Conn) error {
	return readTopic(ctx, log, topics.UsageDeadletter, func(rec bus.Record) {
		c.report.DeadLetters++
		where := fmt.Sprintf("%d/%d", rec.Partition, rec.Offset)
		at, err := origin(rec)
		if err != nil {
			c.report.differ("dead letters", where, "the place of its original", err.Error())
			return
		}
		if reason, _ := rec.Header(headerDeadLetterAt + "reason"); len(reason) == 0 {
			c.report.differ("dead letters", where, "a reason", "none")
		}
		c.dead[at] = rec.Value
	})
}

func origin(rec bus.Record) (position, error) {
	p, _ := rec.Header(headerDeadLetterAt + "partition")
	o, _ := rec.Header(headerDeadLetterAt + "offset")
	partition, err := strconv.ParseInt(string(p), 10, 32)
	if err != nil {
		return position{}, fmt.Errorf("header %spartition: %w", headerDeadLetterAt, err)
	}
	offset, err := strconv.ParseInt(string(o), 10, 64)
	if err != nil {
		return position{}, fmt.Errorf("header %soffset: %w", headerDeadLetterAt, err)
	}
	return position{int32(partition), offset}, nil
}
