package costattributor

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/domain/ledger"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/journal"
	"github.com/weir-project/weir/pkg/ledgercodec"
	"github.com/weir-project/weir/pkg/obs"
	"github.com/weir-project/weir/pkg/usageevent"
)

// attributor reads usage.events.v1.
type attributor struct {
	log      *slog.Logger
	metrics  *metrics
	verifier verifier
	catalogs catalogs
	reader   journal.Reader
	produce  func(ctx context.Context, records ...bus.Record) error
	// loaded waits until the catalogs are applied: an event must not be judged by half of them.
	loaded func(ctx context.Context) error
	maxIDs int

	mu    sync.Mutex
	books map[int32]*book // per claimed partition, used by its worker alone
}

// book is what this process knows of one partition.
type book struct {
	state *ledger.State
	// unsaved is what was decided but not acknowledged: state has it already, so it is written again before anything else.
	unsaved []bus.Record
	// decided is the offset up to which (exclusively) events have been decided by this owner.
	decided int64
}

// assigned restores a partition's state from its journal.
func (a *attributor) assigned(ctx context.Context, claim bus.Claim, _ bus.Committed) (int64, error) {
	if err := a.loaded(ctx); err != nil {
		return 0, err
	}
	b := &book{state: ledger.NewState()}
	err := a.reader.ReadPartition(ctx, topics.LedgerEntries, claim.Partition(), -1, -1, func(r bus.Record) error {
		e, err := ledgercodec.Unmarshal(r.Value)
		if err != nil {
			return bus.Fatal{Err: fmt.Errorf("journal %d/%d: %w", r.Partition, r.Offset, err)}
		}
		b.state.Apply(e)
		return a.room(b)
	})
	if err != nil {
		return 0, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.books[claim.Partition()] = b
	a.metrics.ids.WithLabelValues(label(claim.Partition())).Set(float64(b.state.Len()))
	a.log.Info("partition restored", obs.Partition, claim.Partition(), "events", b.state.Len())
	return bus.AtCommitted, nil
}

// room refuses when the bound on ids is reached: forgetting one would let its duplicate be billed.
func (a *attributor) room(b *book) error {
	if b.state.Len() > a.maxIDs {
		return fmt.Errorf("partition has more than %d events (-max-ids)", a.maxIDs)
	}
	return nil
}

func (a *attributor) release(claim bus.Claim) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.books, claim.Partition())
	a.metrics.ids.DeleteLabelValues(label(claim.Partition()))
}

// handle books a batch: decode, load, decide for each event, then one save. Dead letters and re-routed records are
// emitted with the same call.
func (a *attributor) handle(ctx context.Context, claim bus.Claim, batch []bus.Record) error {
	a.mu.Lock()
	b := a.books[claim.Partition()]
	a.mu.Unlock()
	if b == nil {
		return fmt.Errorf("cost-attributor: partition %d was not assigned", claim.Partition())
	}
	for _, r := range batch {
		if r.Offset < b.decided {
			continue // decided by an attempt whose save failed
		}
		if err := a.room(b); err != nil {
			return err
		}
		if err := a.one(b, r); err != nil {
			return err
		}
		b.decided = r.Offset + 1
	}
	// Save and emit.
	if len(b.unsaved) > 0 {
		if err := a.produce(ctx, b.unsaved...); err != nil {
			return fmt.Errorf("cost-attributor: %w", err)
		}
		b.unsaved = nil
	}
	a.metrics.ids.WithLabelValues(label(claim.Partition())).Set(float64(b.state.Len()))
	return nil
}

// one decides one record. An error is never poison: it stops the partition.
func (a *attributor) one(b *book, r bus.Record) error {
	// Decode.
	ev, err := usageevent.Decode(r.Value, r.Header)
	if err != nil {
		return a.refuse(b, r, err)
	}
	if ev.Data.Marker != nil {
		return a.mark(b, r, ev)
	}
	v, err := a.verifier.identify(ev, r)
	if err != nil {
		return a.refuse(b, r, err)
	}
	if home := bus.PartitionFor([]byte(v.tenant), r.Topic.Partitions()); home != r.Partition {
		return a.reroute(b, r, v.tenant)
	}
	// Load.
	facts, err := a.catalogs.facts(v, r)
	if err != nil {
		return a.refuse(b, r, err)
	}
	// Decide.
	candidate, err := ledger.NewCandidate(facts)
	if err != nil {
		return a.refuse(b, r, rejected(reasonOutOfRange, "%v", err))
	}
	d := b.state.Decide(candidate)
	if d.Verdict == ledger.Conflict || d.Verdict == ledger.AlreadyClosed {
		return a.refuse(b, r, rejected(string(d.Verdict), "%s", d.Detail))
	}
	a.metrics.events.WithLabelValues(string(d.Verdict)).Inc()
	for _, e := range d.Entries {
		if err := b.keep(e); err != nil {
			return err
		}
		a.metrics.entry(e)
	}
	return nil
}

// keep takes an entry that was decided into the state, and among what is to be saved.
func (b *book) keep(e ledger.Entry) error {
	record, err := ledgercodec.Record(e)
	if err != nil {
		return err
	}
	b.state.Apply(e)
	b.unsaved = append(b.unsaved, record)
	return nil
}

// refuse sends poison to the dead letter; other errors are returned.
func (a *attributor) refuse(b *book, r bus.Record, err error) error {
	why, poison := reasonOf(err)
	if !poison {
		return err
	}
	b.unsaved = append(b.unsaved, deadLetter(r, why))
	a.metrics.events.WithLabelValues("dead_letter").Inc()
	a.metrics.deadLetters.WithLabelValues(why.reason).Inc()
	a.log.Warn("dead letter", "reason", why.reason, obs.EventID, usageevent.PeekID(r.Value, r.Header), obs.Partition, r.Partition, obs.Offset, r.Offset)
	return nil
}

// reroute sends a record to its tenant's partition. One that was moved before, or has no room for the mark, is poison.
func (a *attributor) reroute(b *book, r bus.Record, tenant string) error {
	if _, moved := r.Header(headerRerouted); moved {
		return a.refuse(b, r, rejected(reasonMisrouted, "moved once, and again in a wrong partition"))
	}
	out := rerouted(r, tenant)
	if out.Size() > r.Topic.MaxRecordBytes() {
		return a.refuse(b, r, rejected(string(usageevent.Oversized), "in a wrong partition, and too large to be moved"))
	}
	b.unsaved = append(b.unsaved, out)
	a.metrics.events.WithLabelValues("rerouted").Inc()
	return nil
}
