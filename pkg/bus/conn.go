package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Options is what all Kafka clients of one process share. All fields are required.
type Options struct {
	Address Address
	// ClientID names the process in the broker's logs, e.g. "admission-2".
	ClientID string
	Log      *slog.Logger
	// Metrics takes the bus metrics; one Conn per registry.
	Metrics prometheus.Registerer
	// Now is the clock of the delay and duration metrics; nothing else depends on it.
	Now func() time.Time
}

// Conn makes the clients. It holds no connection itself.
type Conn struct {
	opts    Options
	kgo     []kgo.Opt
	metrics *metrics
}

// Connect checks the options, reads TLS and password files and registers the metrics. It does not dial: use Admin.Ping.
func Connect(o Options) (*Conn, error) {
	if o.Log == nil || o.Metrics == nil || o.Now == nil || o.ClientID == "" || len(o.Address.Brokers) == 0 {
		return nil, errors.New("bus: address, client id, log, metrics and now are all required")
	}
	opts, err := o.Address.options()
	if err != nil {
		return nil, fmt.Errorf("bus: %w", err)
	}
	m, err := newMetrics(o.Metrics)
	if err != nil {
		return nil, fmt.Errorf("bus: %w", err)
	}
	opts = append(opts,
		kgo.ClientID(o.ClientID),
		kgo.WithLogger(kgoLogger{o.Log}),
		kgo.MetadataMinAge(time.Second),
		kgo.DisableClientMetrics(),
		// kgo's default rewinds one minute on data loss; for money "from the start" is the only safe answer.
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		// A partition that is resumed waits for the running fetch of its broker, so the wait is kept short.
		kgo.FetchMaxWait(250*time.Millisecond),
		kgo.FetchMaxBytes(16<<20),
	)
	return &Conn{opts: o, kgo: opts, metrics: m}, nil
}

func (c *Conn) client(extra ...kgo.Opt) (*kgo.Client, error) {
	cl, err := kgo.NewClient(append(append([]kgo.Opt(nil), c.kgo...), extra...)...)
	if err != nil {
		return nil, fmt.Errorf("bus: kafka client: %w", err)
	}
	return cl, nil
}

// backoff between attempts: exponential from min to max, each wait drawn from its upper half so that replicas that
// failed together do not retry together.
type backoff struct {
	min, max time.Duration
	attempt  int
}

// wait sleeps before the next attempt and returns false when ctx ended first.
func (b *backoff) wait(ctx context.Context) bool {
	d := min(b.max, b.min<<min(b.attempt, 20))
	b.attempt++
	t := time.NewTimer(d/2 + rand.N(d/2+1))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// kgoLogger forwards kgo's warnings and errors; its information lines are too many for production.
type kgoLogger struct{ log *slog.Logger }

func (l kgoLogger) Level() kgo.LogLevel { return kgo.LogLevelWarn }

func (l kgoLogger) Log(level kgo.LogLevel, msg string, keyvals ...any) {
	if level == kgo.LogLevelError {
		l.log.Error("kafka client: "+msg, keyvals...)
		return
	}
	l.log.Warn("kafka client: "+msg, keyvals...)
}
