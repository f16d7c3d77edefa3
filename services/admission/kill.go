package admission

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/catalog"
	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/pricing"
	"github.com/weir-project/weir/pkg/domain/usage"
)

// killInterval is how often each replica compares what it knows with the mirror: a replica that has lost Kafka stops
// within it, and a mirror that was lost is whole again within it.
const killInterval = 500 * time.Millisecond

// killSwitch is what an operator has stopped: the topic's copy, joined with the mirror in Redis.
// Both are read at all times and the higher version of each scope wins, so neither needs to know how the other is.
type killSwitch struct {
	known *catalog.Kills
	// mirrorRead: the mirror was read once, which readiness waits for.
	mirrorRead atomic.Bool
	// news asks for a comparison now.
	news chan struct{}
}

func newKillSwitch(bad catalog.Bad) *killSwitch {
	return &killSwitch{known: catalog.NewKills(bad), news: make(chan struct{}, 1)}
}

// apply takes one record of the topic. It stops calls at once; the mirror follows, and the topic does not wait for it.
func (k *killSwitch) apply(r bus.Record) error {
	if err := k.known.Apply(r); err != nil {
		return err
	}
	select {
	case k.news <- struct{}{}:
	default: // one is waiting already
	}
	return nil
}

// watchKills keeps copy and mirror equal until ctx ends.
func (s *Service) watchKills(ctx context.Context) error {
	tick := time.NewTicker(killInterval)
	defer tick.Stop()
	for {
		s.syncKills(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-s.kills.news:
		}
	}
}

// syncKills takes what the mirror knows better and gives it what it lacks. While Redis is away nothing is lifted.
func (s *Service) syncKills(ctx context.Context) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	mirrored, err := s.counters.Kills(ctx)
	if err != nil {
		s.killTrouble(ctx, err)
	}
	if errors.Is(err, budgetstore.ErrUnavailable) {
		return // any other error: some did not decode, and the topic's copy writes them again
	}
	if s.kills.known.Merge(mirrored...) {
		s.deps.Log.Warn("kill switches taken from Redis, ahead of Kafka", "scopes", len(mirrored))
	}
	s.kills.mirrorRead.Store(true)
	if err := s.counters.MirrorKills(ctx, lacking(s.kills.known.Set(), mirrored)); err != nil {
		s.killTrouble(ctx, err)
	}
}

func (s *Service) killTrouble(ctx context.Context, err error) {
	if ctx.Err() == nil && s.quiet.Pass("kill_mirror", s.deps.Now()) {
		s.deps.Log.Warn("the mirror of kill switches is behind", "error", err)
	}
}

// lacking is what of known is not in the mirror, or older there.
func lacking(known admit.Kills, mirrored []admit.Kill) []admit.Kill {
	there := make(map[admit.KillScope]admit.Kill, len(mirrored))
	for _, k := range mirrored {
		there[k.Scope] = k
	}
	var out []admit.Kill
	for _, k := range known.List() {
		if old, ok := there[k.Scope]; !ok || k.Newer(old) {
			out = append(out, k)
		}
	}
	return out
}

// killed refuses what an operator has stopped; provider and model are empty where no call is meant. A kill is told
// before every limit and every outage: those may be retried, this must not be.
func (s *Service) killed(tenant, provider, model string) *Problem {
	set := s.kills.known.Set()
	if set.Empty() {
		return nil
	}
	providers, models := s.names(provider, model)
	k, stops := set.Stops(tenant, providers, models)
	if !stops {
		return nil
	}
	return problem(admit.Killed, killText(k))
}

// names are a provider and a model as the caller and as the price book call them: who stops gpt-4o means its dated
// releases too.
func (s *Service) names(provider, model string) (providers, models []string) {
	if model == "" {
		return nil, nil
	}
	providers, models = []string{provider, usage.ProviderName(provider)}, []string{model}
	if v, _, err := s.catalogs.prices.Book().At(provider, model, s.deps.Now()); err == nil {
		providers, models = append(providers, v.Provider), append(models, v.Model)
	} else { // it may be held at its provider's dearest rates
		providers = append(providers, pricing.BookNames(provider)...)
	}
	return providers, models
}

func killText(k admit.Kill) string {
	text := fmt.Sprintf("An operator has stopped %s", k.Scope)
	if k.Scope == admit.KillAll {
		text = "An operator has stopped all calls"
	}
	if k.Reason != "" {
		text += ": " + k.Reason
	}
	return text + "."
}

// isOutage reports whether err says nothing about the reservation itself.
func isOutage(err error) bool { return err != nil && storeProblem(err).Code.Retryable() }
