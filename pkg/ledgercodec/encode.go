package ledgercodec

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/domain/ledger"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/gen/weirv1"
)

// Record returns the journal record of an entry: in its tenant's partition, with the broker's timestamp of the source, so
// that writing it again gives an identical record. A marker goes to the partition that its own source stood in.
func Record(e ledger.Entry) (bus.Record, error) {
	value, err := marshal(e)
	if err != nil {
		return bus.Record{}, err
	}
	name := e.TenantID
	if e.IsMarker() {
		name = e.ID
	}
	r := bus.NewRecord(topics.LedgerEntries, name, []byte(name), value)
	if e.IsMarker() {
		r.Partition = e.At.Partition
	}
	r.Timestamp = e.RecordedAt
	return r, nil
}

// marshal writes an entry; the same entry gives the same bytes.
func marshal(e ledger.Entry) ([]byte, error) {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(toProto(e))
	if err != nil {
		return nil, fmt.Errorf("encode ledger entry %s: %w", e.ID, err)
	}
	return b, nil
}

// toProto converts an entry to its wire form.
func toProto(e ledger.Entry) *weirv1.LedgerEntry {
	if e.Marker != nil {
		return markerToProto(e)
	}
	m := &weirv1.LedgerEntry{
		Id: e.ID, Kind: kinds.encode(e.Kind), TenantId: e.TenantID, EventTime: stamp(e.EventTime), RecordedAt: stamp(e.RecordedAt),
		Source: e.Source, EventId: e.EventID, ResponseId: e.ResponseID, ContentHash: e.ContentHash[:],
		Provider: e.Provider, Model: e.Model, ServiceTier: e.ServiceTier, Status: statuses.encode(e.Status), ErrorCode: e.ErrorCode, Flags: e.Flags,
		InputTokens: e.InputTokens, OutputTokens: e.OutputTokens, RawCostUsd: optional(e.Raw), BilledCostUsd: optional(e.Billed),
		PriceVersion: e.PriceVersion, MarkupPercent: e.Markup.String(),
		Lineage: &weirv1.Lineage{RootExecutionId: e.Lineage.RootExecutionID, ParentAgentId: e.Lineage.ParentAgentID, AgentId: e.Lineage.AgentID,
			CostCenter: e.Lineage.CostCenter, Depth: e.Lineage.Depth, TraceId: e.Lineage.TraceID, SpanId: e.Lineage.SpanID},
		Windows:      &weirv1.WindowKeys{Minute: e.Windows.Minute, Hour: e.Windows.Hour, Day: e.Windows.Day, Month: e.Windows.Month},
		PostedPeriod: e.PostedPeriod, ReservationId: e.ReservationID, ReservedAt: stamp(e.ReservedAt), OwnMode: ownModes.encode(e.OwnMode),
		OwnNanos: int64(e.Own), ExternalNanos: int64(e.External), Epoch: e.Epoch, ReversesId: e.ReversesID,
		SourceTopic: e.At.Topic, SourcePartition: e.At.Partition, SourceOffset: e.At.Offset,
		RawUsage: e.RawUsage, NormaliserVersion: e.NormaliserVersion, HeldNanos: int64(e.Held),
		Scopes: scopesToProto(e.Scopes), ApiKeyId: e.APIKeyID,
	}
	for _, l := range e.Lines {
		line := &weirv1.MeterLine{Meter: l.Meter, Quantity: l.Quantity.String(), RawCostUsd: text(l.Raw), BilledCostUsd: text(l.Billed)}
		if l.Rate != nil {
			line.RateUsd = l.Rate.String()
		}
		m.Lines = append(m.Lines, line)
	}
	return m
}

func stamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

func optional(a *money.USD) *string {
	if a == nil {
		return nil
	}
	s := a.String()
	return &s
}

func text(a *money.USD) string {
	if a == nil {
		return ""
	}
	return a.String()
}
