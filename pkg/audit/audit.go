package audit

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/gen/topics"
)

// LedgerRow is one row of agent_cost_ledger. Costs are decimal strings, "" is NULL.
type LedgerRow struct {
	ID, TenantID, Root, Parent, Agent, CostCenter   string
	Provider, Model, Status, ErrorCode, Kind        string
	Source, EventID, ResponseID, Reservation        string
	PriceVersion, MarkupPercent, RawUSD, BilledUSD  string
	InputTokens, OutputTokens, PostedPeriod, Offset int64
	Partition, Depth                                int32
	TraceID, SpanID, ReversesID, ServiceTier, Topic string
	APIKey                                          string
	OwnNanos, ExternalNanos                         int64
	Day                                             int64
	Timestamp, RecordedAt                           time.Time
	Meters, Costs                                   map[string]string
	Flags, Branches                                 []string
	// Layout says which columns the row's writer knew: 0 may lack api_key_id and branches.
	Layout int64
}

// WindowRow is one window total, from the topic or from ClickHouse.
type WindowRow struct {
	Key                          WindowKey
	Version                      int64
	OwnNanos, ExternalNanos      int64
	RawUSD, BilledUSD            string
	InputTokens, OutputTokens    int64
	Entries, Unpriced, Estimated int64
	MaxDepth                     int64
	Latest                       time.Time // event time of the latest entry
}

// WindowKey names a window total: scope is TENANT, EXECUTION, EXECUTION_BRANCH, COST_CENTER, AGENT or API_KEY, kind MINUTE,
// HOUR, DAY, MONTH or EXECUTION.
type WindowKey struct {
	Tenant, Scope, ScopeID, Kind string
	Window                       int64
}

func (k WindowKey) String() string {
	return fmt.Sprintf("%s %s %s %s %d", k.Tenant, k.Scope, k.ScopeID, k.Kind, k.Window)
}

// Books reads ClickHouse.
type Books interface {
	// LedgerRows calls fn for every row, in any order.
	LedgerRows(ctx context.Context, fn func(LedgerRow) error) error
	// Windows calls fn for the latest version of every window.
	Windows(ctx context.Context, fn func(WindowRow) error) error
	// WindowConflicts calls fn for windows that have rows of one version with different contents.
	WindowConflicts(ctx context.Context, fn func(key WindowKey, contents int64) error) error
}

// Counters are the nano-dollars of a tenant or a sub-scope in Redis. Own is settled and held, Held what open holds may still
// give back. Labels are YYYYMMDD and YYYYMM.
type Counters struct {
	Known                              bool
	DayLabel, MonthLabel               int32
	DayOwn, DayHeld, DayExternal       int64
	MonthOwn, MonthHeld, MonthExternal int64
}

// ExecutionCounters are the nano-dollars of a root execution, or of a branch of one, in Redis. Exists says that there are
// any, Known that its limits are: where they are not, only external usage was told, or the counters were made anew without
// them.
type ExecutionCounters struct {
	Exists, Known       bool
	Own, Held, External int64
}

// Budgets reads Redis; many reads are under way at once.
type Budgets interface {
	// Tenant reads the counters of a tenant; the time zone is that of its budget calendar.
	Tenant(ctx context.Context, tenant string, zone *time.Location) (Counters, error)
	// Scope reads the counters of a sub-scope: kind is cost_center, agent or api_key.
	Scope(ctx context.Context, tenant, kind, id string, zone *time.Location) (Counters, error)
	// Execution reads the counters of a root execution.
	Execution(ctx context.Context, tenant, root string) (ExecutionCounters, error)
	// Branch reads those of a branch of one.
	Branch(ctx context.Context, tenant, id string) (ExecutionCounters, error)
}

// Sources is what an audit reads. Only Log is trusted.
type Sources struct {
	Log   *bus.Conn
	Books Books
	// Budgets is nil where Redis is not to be compared: while its counters are being made, no figure there means anything.
	Budgets Budgets
	Now     time.Time
}

// Run audits everything once. A difference is in the report; an error is a source that could not be read.
func Run(ctx context.Context, s Sources) (Report, error) {
	var r Report
	book, err := readCatalogs(ctx, s.Log, &r)
	if err != nil {
		return r, err
	}
	j, err := readJournal(ctx, s.Log, &r)
	if err != nil {
		return r, err
	}
	if r.Entries == 0 {
		r.differ("journal", topics.LedgerEntries.Name(), "at least one entry", "an empty log")
	}
	if err := checkEvents(ctx, s.Log, j, &r); err != nil {
		return r, err
	}
	checkEntries(j, book, &r)
	checkMarks(j, &r)
	if err := checkLedger(ctx, s.Books, j, &r); err != nil {
		return r, err
	}
	expected := foldWindows(j, book)
	noteEnded(expected, s.Now)
	past, err := checkWindowTopic(ctx, s.Log, expected, &r)
	if err != nil {
		return r, err
	}
	checkBases(j, book, past, &r)
	if err := checkWindowTable(ctx, s.Books, expected, &r); err != nil {
		return r, err
	}
	if s.Budgets != nil {
		if err := checkBudgets(ctx, s, j, book, expected, &r); err != nil {
			return r, err
		}
	}
	r.finish()
	return r, nil
}
