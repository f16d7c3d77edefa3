package ledgercodec

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/weir-project/weir/pkg/domain/ledger"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/window"
	"github.com/weir-project/weir/pkg/gen/weirv1"
)

// Unmarshal reads the value of a journal record.
func Unmarshal(value []byte) (ledger.Entry, error) {
	m := new(weirv1.LedgerEntry)
	if err := proto.Unmarshal(value, m); err != nil {
		return ledger.Entry{}, fmt.Errorf("decode ledger entry: %w", err)
	}
	return fromProto(m)
}

// fromProto converts the wire form to an entry.
func fromProto(m *weirv1.LedgerEntry) (ledger.Entry, error) {
	if m.GetKind() == weirv1.EntryKind_ENTRY_KIND_EPOCH_MARKER {
		return markerFromProto(m)
	}
	l, w := m.GetLineage(), m.GetWindows()
	e := ledger.Entry{
		ID: m.GetId(), Kind: kinds.decode(m.GetKind()), TenantID: m.GetTenantId(), EventTime: instant(m.GetEventTime()), RecordedAt: instant(m.GetRecordedAt()),
		Source: m.GetSource(), EventID: m.GetEventId(), ResponseID: m.GetResponseId(),
		Provider: m.GetProvider(), Model: m.GetModel(), ServiceTier: m.GetServiceTier(), Status: statuses.decode(m.GetStatus()), ErrorCode: m.GetErrorCode(),
		Flags: m.GetFlags(), InputTokens: m.GetInputTokens(), OutputTokens: m.GetOutputTokens(), PriceVersion: m.GetPriceVersion(),
		Lineage: ledger.Lineage{RootExecutionID: l.GetRootExecutionId(), ParentAgentID: l.GetParentAgentId(), AgentID: l.GetAgentId(),
			CostCenter: l.GetCostCenter(), Depth: l.GetDepth(), TraceID: l.GetTraceId(), SpanID: l.GetSpanId()},
		Windows:      window.Keys{Minute: w.GetMinute(), Hour: w.GetHour(), Day: w.GetDay(), Month: w.GetMonth()},
		PostedPeriod: m.GetPostedPeriod(), ReservationID: m.GetReservationId(), ReservedAt: instant(m.GetReservedAt()), OwnMode: ownModes.decode(m.GetOwnMode()),
		Own: money.Nano(m.GetOwnNanos()), External: money.Nano(m.GetExternalNanos()), Held: money.Nano(m.GetHeldNanos()), Epoch: m.GetEpoch(),
		ReversesID: m.GetReversesId(), At: ledger.Position{Topic: m.GetSourceTopic(), Partition: m.GetSourcePartition(), Offset: m.GetSourceOffset()},
		RawUsage: m.GetRawUsage(), NormaliserVersion: m.GetNormaliserVersion(), APIKeyID: m.GetApiKeyId(),
	}
	if e.ID == "" || e.TenantID == "" || e.EventTime.IsZero() || len(m.GetContentHash()) != len(e.ContentHash) {
		return e, fmt.Errorf("ledger entry %q of tenant %q lacks id, tenant, event time or content hash", e.ID, e.TenantID)
	}
	copy(e.ContentHash[:], m.GetContentHash())
	if e.Kind == "" {
		return e, fmt.Errorf("ledger entry %s: unknown kind %s", e.ID, m.GetKind())
	}
	if err := errors.Join(readMoney(&e, m), readScopes(&e, m.GetScopes())); err != nil {
		return e, fmt.Errorf("ledger entry %s: %w", e.ID, err)
	}
	return e, nil
}

func readMoney(e *ledger.Entry, m *weirv1.LedgerEntry) error {
	var err error
	if e.Markup, err = money.ParsePercent(m.GetMarkupPercent()); err != nil {
		return fmt.Errorf("markup: %w", err)
	}
	if (m.RawCostUsd == nil) != (m.BilledCostUsd == nil) {
		return errors.New("one of raw and billed cost is absent")
	}
	if m.RawCostUsd != nil {
		if e.Raw, err = amount(m.GetRawCostUsd()); err != nil {
			return err
		}
		if e.Billed, err = amount(m.GetBilledCostUsd()); err != nil {
			return err
		}
	}
	for _, l := range m.GetLines() {
		line := ledger.Line{Meter: l.GetMeter()}
		if line.Quantity, err = money.ParseDecimal(l.GetQuantity()); err != nil {
			return fmt.Errorf("meter %s: quantity: %w", l.GetMeter(), err)
		}
		if l.GetRateUsd() != "" {
			var rate money.Decimal
			if rate, err = money.ParseDecimal(l.GetRateUsd()); err != nil {
				return fmt.Errorf("meter %s: rate: %w", l.GetMeter(), err)
			}
			line.Rate = &rate
		}
		if l.GetRawCostUsd() != "" {
			if line.Raw, err = amount(l.GetRawCostUsd()); err != nil {
				return err
			}
			if line.Billed, err = amount(l.GetBilledCostUsd()); err != nil {
				return err
			}
		}
		e.Lines = append(e.Lines, line)
	}
	return nil
}

func amount(s string) (*money.USD, error) {
	a, err := money.ParseUSD(s)
	if err != nil {
		return nil, fmt.Errorf("amount %q: %w", s, err)
	}
	return &a, nil
}

func instant(t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.AsTime()
}
