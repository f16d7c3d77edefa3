//go:build integration

package outboxrelay

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/identity"
	"github.com/weir-project/weir/pkg/outbox"
	"github.com/weir-project/weir/pkg/pgstore"
	"github.com/weir-project/weir/pkg/usageevent"
)

// TestMarkersKeepTheirPlace: settles of several tenants while epochs are raised, two relays killed at random. In every
// partition, by first sights: amounts that the settle script applied in an epoch stand before the marker that ended it,
// those for the journal reader behind it, and each marker is there, in its own partition, with admission's signature.
func TestMarkersKeepTheirPlace(t *testing.T) {
	const tenants, ends, raises = 6, 40, 8
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	url, b := database(t), newBroker(t)
	store, err := pgstore.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	if _, err := store.InitEpoch(t.Context(), 1, 1); err != nil {
		t.Fatal(err)
	}
	secret, err := identity.NewSecret([]byte(strings.Repeat("k", 32)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var relays, work sync.WaitGroup
	var kills atomic.Int64
	for i := range 2 {
		producer := newProducer(t, b)
		relays.Go(func() {
			chaos(ctx, t, testConfig(url, b.url()), producer.Produce, rand.New(rand.NewPCG(seed, uint64(i))), &kills)
		})
	}
	var epoch atomic.Int64
	epoch.Store(1)
	for i := range tenants {
		work.Go(func() {
			for n := range ends {
				if err := endOnce(t.Context(), store, fmt.Sprintf("tenant-%d", i), n, epoch.Load()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	work.Go(func() {
		n := topics.UsageEvents.Partitions()
		for lost := int64(1); lost <= raises; lost++ {
			err := errors.Join(
				patiently(func() error {
					_, err := store.RaiseEpoch(t.Context(), lost, lost+1, 1, pgstore.EpochMarkers(secret, lost+1, usageevent.EpochRaised, n))
					return err
				}),
				patiently(func() error {
					_, err := store.AddBarrier(t.Context(), lost+1, pgstore.EpochMarkers(secret, lost+1, usageevent.EpochBarrier, n))
					return err
				}),
				finish(t, store, lost+1))
			if err != nil {
				t.Error(err)
			}
			epoch.Store(lost + 1)
		}
	})
	work.Wait()
	until(t, "everything published", func() bool { return backlog(t, url) == 0 })
	stop()
	relays.Wait()
	events, markers := 0, 0
	for p := range int32(topics.UsageEvents.Partitions()) {
		e, m := checkPlaces(t, b, secret, p)
		events, markers = events+e, markers+m
	}
	t.Logf("%d kills", kills.Load())
	if kills.Load() == 0 || events != tenants*ends || markers != 2*raises*topics.UsageEvents.Partitions() {
		t.Errorf("%d kills, %d events, %d markers", kills.Load(), events, markers)
	}
}

// endOnce settles a hold of the epoch: by the script if that is the epoch of now, else by the journal.
func endOnce(ctx context.Context, store *pgstore.Store, tenant string, n int, epoch int64) error {
	for _, mode := range []pgstore.OwnMode{pgstore.OwnDirect, pgstore.OwnJournal} {
		id := fmt.Sprintf("%s:%d:%s:%d", mode, epoch, tenant, n)
		row := pgstore.Row{Tenant: tenant, ReservationID: fmt.Sprint(n), ReservedAt: time.Unix(1, 0), Outcome: pgstore.Settled, OwnMode: mode, Epoch: epoch, EventID: id}
		_, _, err := store.End(ctx, row, &outbox.Event{ID: id, AggregateType: "tenant", AggregateID: tenant, Type: usageevent.TypeUsage, Payload: []byte("{}")})
		if !errors.Is(err, pgstore.ErrEpochRaised) {
			return err
		}
	}
	return fmt.Errorf("%s %d: an amount for the journal needs no epoch", tenant, n)
}

// checkPlaces walks one partition, each id at its first sight.
func checkPlaces(t *testing.T, b *broker, secret identity.Secret, partition int32) (events, markers int) {
	t.Helper()
	epoch, seen := int64(1), map[string]bool{}
	err := b.conn("reader").ReadPartition(t.Context(), topics.UsageEvents, partition, -1, -1, func(r bus.Record) error {
		header, _ := r.Header("id")
		id := string(header)
		if seen[id] {
			return nil
		}
		seen[id] = true
		if !strings.HasPrefix(id, "epoch:") {
			events++
			var of int64
			mode, rest, _ := strings.Cut(id, ":")
			if _, err := fmt.Sscanf(rest, "%d:", &of); err != nil {
				return err
			}
			if mode == "direct" && of != epoch || mode == "journal" && of >= epoch {
				t.Errorf("partition %d: %s stands in epoch %d", partition, id, epoch)
			}
			return nil
		}
		markers++
		ev, err := usageevent.Decode(r.Value, r.Header)
		if err != nil {
			return err
		}
		signature, _ := r.Header(identity.SignatureHeader)
		if m := ev.Data.Marker; m == nil || m.Partition != partition || ev.ID != id || !identity.Verify(secret, r.Value, string(signature)) {
			t.Errorf("partition %d: %+v, signature %s", partition, ev, signature)
		} else if m.Phase == usageevent.EpochRaised && m.Epoch != epoch+1 || m.Phase == usageevent.EpochBarrier && m.Epoch != epoch {
			t.Errorf("partition %d: %s in epoch %d", partition, id, epoch)
		} else {
			epoch = m.Epoch
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return events, markers
}

// patiently repeats what ends in flight have kept waiting for 2 s, as its callers do.
func patiently(mark func() error) error {
	for deadline := time.Now().Add(patience); ; {
		err := mark()
		if err == nil || !strings.Contains(err.Error(), "lock timeout") || time.Now().After(deadline) {
			return err
		}
	}
}

// finish opens an epoch as the leader of its recovery does. The server gives the lead of the last one back when it has
// noticed that its connection is closed, so it is asked until then.
func finish(t *testing.T, store *pgstore.Store, epoch int64) error {
	lead, err := store.TryLead(t.Context())
	for deadline := time.Now().Add(patience); lead == nil && err == nil && time.Now().Before(deadline); {
		lead, err = store.TryLead(t.Context())
	}
	if err != nil {
		return err
	}
	if lead == nil {
		return errors.New("somebody leads")
	}
	return errors.Join(lead.Finish(t.Context(), epoch, nil), lead.Close(t.Context()))
}
