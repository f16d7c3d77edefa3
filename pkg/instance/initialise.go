package instance

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/clickhouse"
	"github.com/weir-project/weir/pkg/domain/recovery"
	"github.com/weir-project/weir/pkg/gen/migrations"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/migrate"
	"github.com/weir-project/weir/pkg/pgstore"
)

// answerWithin bounds a first answer of a broker.
const answerWithin = 10 * time.Second

// initWithin bounds the whole of initialise.
const initWithin = 2 * time.Minute

// initialise brings the parts that are ours up to date, and checks those that are the user's own: nothing is ever
// created silently there (`weir init` does it on request).
func (c Config) initialise(ctx context.Context, s State) error {
	ctx, cancel := context.WithTimeout(ctx, initWithin)
	defer cancel()
	for _, step := range []struct {
		part  string
		ours  func(context.Context, string) error
		check func(context.Context, string) error
	}{
		{"kafka", func(ctx context.Context, address string) error { return InitKafka(ctx, address, 1) }, checkKafka},
		{"postgres", InitPostgres, checkPostgres},
		{"clickhouse", InitClickHouse, checkClickHouse},
	} {
		p, ok := s.Part(step.part)
		if !ok {
			return fmt.Errorf("the instance has no %s", step.part)
		}
		if p.Ours() {
			if err := step.ours(ctx, p.Address); err != nil {
				return fmt.Errorf("%s: %w", step.part, err)
			}
		} else if err := step.check(ctx, p.Address); err != nil {
			return fmt.Errorf("your %s: %w\n(`weir init --%s ADDRESS` makes what is missing there, `weir init --print` shows it)", step.part, err, step.part)
		}
	}
	pg, _ := s.Part("postgres")
	rd, _ := s.Part("redis")
	return InitEpoch(ctx, pg.Address, rd.Address)
}

// admin connects to Kafka for administration and makes sure that it answers.
func admin(ctx context.Context, address string) (*bus.Admin, error) {
	addr, err := bus.ParseAddress(address)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMisuse, err)
	}
	conn, err := bus.Connect(bus.Options{
		Address: addr, ClientID: "weir-init", Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), Now: time.Now,
	})
	if err != nil {
		return nil, err
	}
	a, err := conn.Admin()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	if err := a.Ping(ctx); err != nil {
		a.Close()
		return nil, fmt.Errorf("%s does not answer: %w", addr, err)
	}
	return a, nil
}

// InitKafka creates the topics that are missing and checks them all.
func InitKafka(ctx context.Context, address string, replication int) error {
	a, err := admin(ctx, address)
	if err != nil {
		return err
	}
	defer a.Close()
	if err := a.EnsureTopics(ctx, topics.All, replication); err != nil {
		return err
	}
	return a.CheckTopics(ctx, topics.All)
}

// checkKafka reports topics that are missing or otherwise declared.
func checkKafka(ctx context.Context, address string) error {
	a, err := admin(ctx, address)
	if err != nil {
		return err
	}
	defer a.Close()
	return a.CheckTopics(ctx, topics.All)
}

// InitPostgres applies the migrations that are missing.
func InitPostgres(ctx context.Context, address string) error {
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	_, err = migrate.Postgres(ctx, conn, migrations.Postgres)
	return err
}

// checkPostgres reports missing tables.
func checkPostgres(ctx context.Context, address string) error {
	pg, err := pgstore.Open(ctx, address)
	if err != nil {
		return err
	}
	defer pg.Close()
	return pg.Ping(ctx)
}

// InitEpoch gives Postgres and Redis the same random epoch where neither has one. What a Redis of ours has lost, admission
// recovers by itself. ErrLost where Redis is not ours to recover: it holds the counters of another Weir, or of a later
// epoch than Postgres knows of.
func InitEpoch(ctx context.Context, postgres, redis string) error {
	pg, err := pgstore.Open(ctx, postgres)
	if err != nil {
		return fmt.Errorf("postgres: %w", err)
	}
	defer pg.Close()
	rd, err := budgetstore.Open(ctx, redis, budgetstore.Options{})
	if err != nil {
		return fmt.Errorf("redis: %w", err)
	}
	defer func() { _ = rd.Close() }()
	remembered, known, err := pg.Epoch(ctx)
	if err != nil {
		return err
	}
	held, err := rd.Epoch(ctx) // 0 where there is none
	if err != nil && !errors.Is(err, budgetstore.ErrNoEpoch) {
		return err
	}
	switch {
	case !known && held != 0:
		return fmt.Errorf("%w: Redis holds counters (epoch %d) that this Postgres knows nothing of", ErrLost, held)
	case known:
		// Ids that match whatever they are: here only the epochs are compared.
		verdict, reason := recovery.Judge(recovery.Row{Epoch: remembered, ReplicationIDs: []string{"any"}},
			recovery.Redis{Epoch: held, ReplicationIDs: []string{"any"}})
		switch used, err := pg.HasTenantStates(ctx); {
		case err != nil:
			return err
		case verdict == recovery.Refuse:
			return fmt.Errorf("%w: %s (epoch %d, Postgres says %d)", ErrLost, reason, held, remembered)
		case held != 0 || used:
			return nil
		}
	default:
		n, err := rand.Int(rand.Reader, big.NewInt(1<<52-1))
		if err != nil {
			return fmt.Errorf("random epoch: %w", err)
		}
		if remembered, err = pg.InitEpoch(ctx, n.Int64()+1, budgetstore.Layout); err != nil {
			return err
		}
	}
	if held, err = rd.InitEpoch(ctx, remembered); err != nil || held != remembered {
		return errors.Join(err, fmt.Errorf("%w: Redis took epoch %d instead of %d", ErrLost, held, remembered))
	}
	return nil
}

// InitClickHouse makes the database and applies the migrations that are missing.
func InitClickHouse(ctx context.Context, address string) error {
	ch, err := clickhouse.Open(address)
	if err != nil {
		return err
	}
	defer func() { _ = ch.Close() }()
	if err := ch.CreateDatabase(ctx); err != nil {
		return err
	}
	_, err = migrate.Statements(ctx, ch, migrate.ClickHouseRecords, migrations.ClickHouse)
	return err
}

// checkClickHouse refuses a server without the tables, or on which an insert could be counted twice.
func checkClickHouse(ctx context.Context, address string) error {
	ch, err := clickhouse.Open(address)
	if err != nil {
		return err
	}
	defer func() { _ = ch.Close() }()
	return ch.Probe(ctx)
}
