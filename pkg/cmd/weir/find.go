package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/clickhouse"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/pgstore"
)

func (a *app) findCmd() *cobra.Command {
	var wait time.Duration
	c := &cobra.Command{
		Use: "find EVENT-ID", Short: "Where an event is: its ledger rows, its dead letter with the reason, or not seen yet",
		Long: "Find takes the id of an event, or of a reservation; it says too that a reservation was released, of which nothing is booked.",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.find(c.Context(), c.OutOrStdout(), args[0], wait)
		},
	}
	c.Flags().DurationVar(&wait, "wait", 0, "how long to wait for an event that is still on its way")
	return c
}

// foundRow is a ledger row as `find` shows it.
type foundRow struct {
	ID         string  `json:"id"`
	Kind       string  `json:"entry_kind"`
	TenantID   string  `json:"tenant_id"`
	Timestamp  string  `json:"timestamp"`
	Agent      string  `json:"agent_id"`
	CostCenter string  `json:"cost_center"`
	Model      string  `json:"model"`
	Status     string  `json:"status"`
	RawUSD     *string `json:"raw_cost_usd"`
	BilledUSD  *string `json:"billed_cost_usd"`
	Journal    string  `json:"journal"` // partition:offset in ledger.entries.v1
}

// findAnswer has state ledger, dead_letter, released or unseen.
type findAnswer struct {
	EventID     string       `json:"event_id"`
	State       string       `json:"state"`
	Rows        []foundRow   `json:"rows"`
	DeadLetters []deadLetter `json:"dead_letters"`
	ReleasedBy  []string     `json:"released_by"`         // tenants whose reservation of that id was released: of it nothing is booked
	NotAsked    string       `json:"not_asked,omitempty"` // why it is not known whether it was released
	Lag         int64        `json:"lag"`
}

func (a *app) find(ctx context.Context, out io.Writer, id string, wait time.Duration) error {
	if id == "" {
		return misuse("find needs the id of an event or a reservation")
	}
	db, err := a.clickhouse(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	conn, err := a.kafka(ctx)
	if err != nil {
		return err
	}
	var answer findAnswer
	letters := lettersOf{id: id, found: []deadLetter{}, next: map[int32]int64{}}
	err = until(ctx, wait, func() (bool, error) {
		answer, err = look(ctx, db, conn, &letters)
		if err == nil && answer.State == "unseen" {
			a.released(ctx, &answer)
		}
		return answer.State != "unseen", err
	})
	switch {
	case err != nil:
		return err
	case a.json:
		err = printJSON(out, answer)
	default:
		err = answer.print(out)
	}
	if err == nil && answer.State == "unseen" {
		return silentNo()
	}
	return err
}

// lettersOf are an event's dead letters so far.
type lettersOf struct {
	id    string
	found []deadLetter
	next  map[int32]int64 // where each partition is to be read on
}

// more reads what has come since the last time.
func (l *lettersOf) more(ctx context.Context, conn *bus.Conn) error {
	for p := range int32(topics.UsageDeadletter.Partitions()) {
		err := conn.ReadPartition(ctx, topics.UsageDeadletter, p, l.next[p], -1, func(r bus.Record) error {
			if d := asDeadLetter(r); d.EventID == l.id {
				l.found = append(l.found, d)
			}
			l.next[p] = r.Offset + 1
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// look searches ledger and dead letters once.
func look(ctx context.Context, db *clickhouse.Client, conn *bus.Conn, letters *lettersOf) (findAnswer, error) {
	answer := findAnswer{EventID: letters.id, State: "unseen", Rows: []foundRow{}, ReleasedBy: []string{}}
	rows, err := db.Select(ctx, `SELECT id, entry_kind, tenant_id, timestamp, agent_id, cost_center, model_or_resource, status,
		toString(raw_cost_usd), toString(markup_cost_usd), concat(toString(kafka_partition), ':', toString(kafka_offset))
		FROM agent_cost_ledger WHERE event_id = ? OR reservation_id = ? AND reservation_id != '' ORDER BY kafka_partition, kafka_offset LIMIT 100`, letters.id, letters.id)
	if err != nil {
		return answer, awayFrom("clickhouse", err)
	}
	for _, r := range rows {
		answer.Rows = append(answer.Rows, foundRow{r[0], r[1], r[2], r[3], r[4], r[5], r[6], r[7], decimalText(r[8]), decimalText(r[9]), r[10]})
		answer.State = "ledger"
	}
	if err := letters.more(ctx, conn); err != nil {
		return answer, err
	}
	if answer.DeadLetters = letters.found; len(letters.found) > 0 && answer.State == "unseen" {
		answer.State = "dead_letter"
	}
	answer.Lag, err = lag(ctx, conn, wayToTheBill())
	return answer, err
}

// released asks Postgres whether it is a reservation that was released. Without it the answer is poorer, and says so.
func (a *app) released(ctx context.Context, f *findAnswer) {
	by, err := a.releasedBy(ctx, f.EventID)
	if f.ReleasedBy, f.NotAsked = append([]string{}, by...), ""; err != nil {
		f.NotAsked = err.Error()
	}
	if len(by) > 0 {
		f.State = "released"
	}
}

func (a *app) releasedBy(ctx context.Context, id string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, storesWithin)
	defer cancel()
	address, err := a.address("postgres", "WEIR_POSTGRES")
	if err != nil {
		return nil, err
	}
	pg, err := pgstore.Open(ctx, address)
	if err != nil {
		return nil, awayFrom("postgres", err)
	}
	defer pg.Close()
	by, err := pg.ReleasedBy(ctx, id)
	if err != nil {
		return nil, awayFrom("postgres", err)
	}
	return by, nil
}

func (f findAnswer) print(out io.Writer) error {
	w := newTable(out)
	for _, r := range f.Rows {
		usd := "unpriced"
		if r.RawUSD != nil {
			usd = "$" + *r.RawUSD
		}
		fmt.Fprintf(w, "ledger\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Kind, r.TenantID, r.Agent, r.Model, usd, r.Timestamp)
	}
	for _, d := range f.DeadLetters {
		fmt.Fprintf(w, "dead letter\t%s\t%s\t%s\n", d.Ref, d.Reason, d.Detail)
	}
	for _, tenant := range f.ReleasedBy {
		fmt.Fprintf(w, "released\t%s\tof this reservation nothing is booked\n", tenant)
	}
	if f.State == "unseen" {
		fmt.Fprintf(w, "not seen yet; %d records are still on their way\n", f.Lag)
	}
	if f.NotAsked != "" {
		fmt.Fprintf(w, "whether it is a reservation that was released is not known: %s\n", f.NotAsked)
	}
	return w.Flush()
}
