package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/usageevent"
)

func (a *app) dlqCmd() *cobra.Command {
	return group("dlq", "Events that could not be billed, with reason and original bytes",
		&cobra.Command{Use: "list", Short: "List dead letters", Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error {
			return a.dlqList(c.Context(), c.OutOrStdout())
		}},
		&cobra.Command{Use: "show REF", Short: "Print one dead letter (REF is partition:offset)", Args: cobra.ExactArgs(1), RunE: func(c *cobra.Command, args []string) error {
			return a.dlqShow(c.Context(), c.OutOrStdout(), args[0])
		}},
		&cobra.Command{Use: "replay REF…", Short: "Send dead letters to their topic again, byte for byte", Args: cobra.MinimumNArgs(1), RunE: func(c *cobra.Command, args []string) error {
			return a.dlqReplay(c.Context(), c.OutOrStdout(), args)
		}},
	)
}

// deadLetter is one record of usage.deadletter.v1 as people read it.
type deadLetter struct {
	Ref     string    `json:"ref"`
	At      time.Time `json:"at"`
	Reason  string    `json:"reason"`
	Detail  string    `json:"detail"`
	EventID string    `json:"event_id,omitempty"`
	Key     string    `json:"key,omitempty"`
	Source  string    `json:"source"` // topic/partition/offset of the original
	Value   string    `json:"value,omitempty"`
	// Base64 is the value where it is no text: JSON could not carry it unchanged.
	Base64 []byte `json:"value_base64,omitempty"`
}

// dlqPrefix begins the headers that the attributor adds to the original's.
const dlqPrefix = "weir-dlq-"

func asDeadLetter(r bus.Record) deadLetter {
	h := func(name string) string { v, _ := r.Header(dlqPrefix + name); return string(v) }
	return deadLetter{
		Ref: fmt.Sprintf("%d:%d", r.Partition, r.Offset), At: r.Timestamp.UTC(), Reason: h("reason"), Detail: h("detail"),
		Key: string(r.Key), Source: h("topic") + "/" + h("partition") + "/" + h("offset"), EventID: usageevent.PeekID(r.Value, r.Header),
	}
}

func (a *app) dlqList(ctx context.Context, out io.Writer) error {
	conn, err := a.kafka(ctx)
	if err != nil {
		return err
	}
	letters := []deadLetter{}
	if err := readAll(ctx, conn, topics.UsageDeadletter, func(r bus.Record) error {
		letters = append(letters, asDeadLetter(r))
		return nil
	}); err != nil {
		return err
	}
	if a.json {
		return printJSON(out, map[string]any{"dead_letters": letters})
	}
	w := newTable(out)
	fmt.Fprintln(w, "REF\tAT\tREASON\tEVENT\tDETAIL")
	for _, d := range letters {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", d.Ref, d.At.Format(time.RFC3339), d.Reason, d.EventID, d.Detail)
	}
	return w.Flush()
}

func (a *app) dlqShow(ctx context.Context, out io.Writer, text string) error {
	ref, err := parseRef(text)
	if err != nil {
		return err
	}
	conn, err := a.kafka(ctx)
	if err != nil {
		return err
	}
	r, err := ref.read(ctx, conn)
	if err != nil {
		return err
	}
	d := asDeadLetter(r)
	if d.Value = string(r.Value); !utf8.Valid(r.Value) {
		d.Value, d.Base64 = "", r.Value
	}
	if a.json {
		return printJSON(out, d)
	}
	fmt.Fprintf(out, "ref     %s\nat      %s\nreason  %s\ndetail  %s\nevent   %s\nkey     %s\nsource  %s\n", d.Ref, d.At.Format(time.RFC3339Nano), d.Reason, d.Detail, d.EventID, d.Key, d.Source)
	for _, h := range r.Headers {
		if !strings.HasPrefix(h.Key, dlqPrefix) {
			fmt.Fprintf(out, "header  %s: %s\n", h.Key, h.Value)
		}
	}
	_, err = fmt.Fprintf(out, "\n%s\n", r.Value)
	return err
}

// deadLetterRef is a place in usage.deadletter.v1, written partition:offset.
type deadLetterRef struct {
	partition int32
	offset    int64
}

func parseRef(text string) (deadLetterRef, error) {
	p, o, ok := strings.Cut(text, ":")
	partition, err1 := strconv.ParseInt(p, 10, 32)
	offset, err2 := strconv.ParseInt(o, 10, 64)
	if !ok || err1 != nil || err2 != nil || partition < 0 || offset < 0 || int(partition) >= topics.UsageDeadletter.Partitions() {
		return deadLetterRef{}, misuse("%q is no reference: give partition:offset as `weir dlq list` prints it", text)
	}
	return deadLetterRef{int32(partition), offset}, nil
}

// read reads the record at the place.
func (d deadLetterRef) read(ctx context.Context, conn *bus.Conn) (bus.Record, error) {
	var found *bus.Record
	err := conn.ReadPartition(ctx, topics.UsageDeadletter, d.partition, d.offset, d.offset+1, func(r bus.Record) error {
		found = &r
		return nil
	})
	if err != nil {
		return bus.Record{}, err
	}
	if found == nil || found.Offset != d.offset {
		return bus.Record{}, no("no dead letter %d:%d", d.partition, d.offset)
	}
	return *found, nil
}

// dlqReplay sends the original key, bytes and headers to the topic they came from; what was counted since is dropped
// there as a duplicate, so a replay is always safe.
func (a *app) dlqReplay(ctx context.Context, out io.Writer, refs []string) error {
	places := make([]deadLetterRef, len(refs))
	for i, text := range refs {
		var err error
		if places[i], err = parseRef(text); err != nil {
			return err
		}
	}
	conn, err := a.kafka(ctx)
	if err != nil {
		return err
	}
	var records []bus.Record
	for _, ref := range places {
		r, err := ref.read(ctx, conn)
		if err != nil {
			return err
		}
		records = append(records, original(r))
	}
	if err := send(ctx, conn, topics.UsageEvents, records); err != nil {
		return err
	}
	if a.json {
		return printJSON(out, map[string]any{"replayed": refs})
	}
	_, err = fmt.Fprintf(out, "replayed %d\n", len(refs))
	return err
}

// original is what a dead letter was made of. A marker means something in its own partition alone; everything else goes
// where its key says.
func original(r bus.Record) bus.Record {
	var headers []bus.Header
	for _, h := range r.Headers {
		if !strings.HasPrefix(h.Key, dlqPrefix) {
			headers = append(headers, h)
		}
	}
	out := bus.NewRecord(topics.UsageEvents, string(r.Key), r.Key, r.Value, headers...)
	if ev, err := usageevent.Decode(r.Value, r.Header); err == nil && ev.Data.Marker != nil && int(ev.Data.Marker.Partition) < topics.UsageEvents.Partitions() {
		out.Partition = ev.Data.Marker.Partition
	}
	return out
}
