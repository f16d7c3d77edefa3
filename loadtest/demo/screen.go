package demo

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weir-project/weir/loadtest/caller"
)

// figures is what the players report, and the screen shows. It is safe for concurrent use.
type figures struct {
	mu      sync.Mutex
	total   int
	trace   int                       // settled of the trace
	settled map[string]int            // by tenant
	refused map[string]map[string]int // by tenant and code
	rungs   map[string]int            // the highest by tenant
	events  int
	loop    runaway
}

func newFigures(total int) *figures {
	return &figures{total: total, settled: map[string]int{}, refused: map[string]map[string]int{}, rungs: map[string]int{}}
}

func (f *figures) refusal(tenant string, r *caller.Refusal) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refused[tenant] == nil {
		f.refused[tenant] = map[string]int{}
	}
	f.refused[tenant][strings.TrimSuffix(r.Code+":"+r.Limit+r.Window, ":")]++
}

func (f *figures) settle(tenant string, a caller.Admission) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.trace++
	f.settled[tenant]++
	f.rungs[tenant] = max(f.rungs[tenant], a.Rung)
}

func (f *figures) with(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// screen shows the figures and every tenant's budget: a few lines redrawn in place on a terminal, else a block now and
// then.
type screen struct {
	out     io.Writer
	width   int // 0 is no terminal
	figures *figures
	tenants []string
	clients map[string]*caller.Client
	begin   time.Time
	drawn   int
}

// Intervals between two pictures.
const (
	everyTerminal = time.Second
	everyPlain    = 10 * time.Second
)

// run draws until ctx ends, and once more at the end.
func (s *screen) run(ctx context.Context) {
	every := everyPlain
	if s.width > 0 {
		every = everyTerminal
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.draw(ctx)
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
			defer cancel()
			s.draw(last)
			return
		}
	}
}

func (s *screen) draw(ctx context.Context) {
	budgets := map[string]caller.Budget{}
	for _, tenant := range s.tenants {
		if b, err := s.clients[tenant].Budget(ctx); err == nil {
			budgets[tenant] = b
		}
	}
	lines := s.lines(budgets, time.Since(s.begin))
	if s.width > 0 {
		for i, line := range lines { // a line that wraps would not be drawn over
			if text := []rune(line); len(text) >= s.width {
				lines[i] = string(text[:s.width-2]) + "…"
			}
		}
		if s.drawn > 0 {
			fmt.Fprintf(s.out, "\x1b[%dA\x1b[J", s.drawn)
		}
	}
	s.drawn = len(lines)
	fmt.Fprintln(s.out, strings.Join(lines, "\n"))
}

// lines is one picture.
func (s *screen) lines(budgets map[string]caller.Budget, elapsed time.Duration) []string {
	f := s.figures
	f.mu.Lock()
	defer f.mu.Unlock()
	lines := []string{fmt.Sprintf("%4.0fs  %d of %d trace calls settled, %d events straight to Kafka", elapsed.Seconds(), f.trace, f.total, f.events)}
	for _, tenant := range s.tenants {
		line := fmt.Sprintf("  %-8s %5d settled", tenant, f.settled[tenant])
		if b, ok := budgets[tenant]; ok {
			day := b.Windows["day"]
			line += fmt.Sprintf("  $%s of $%s a day (%d %%), rung %d %s", cents(day.UsedUSD), cents(day.CeilingUSD), b.PercentUsed, b.Rung, b.Mode)
		}
		for _, code := range slices.Sorted(maps.Keys(f.refused[tenant])) {
			line += fmt.Sprintf("  %s ×%d", code, f.refused[tenant][code])
		}
		lines = append(lines, line)
	}
	loop := fmt.Sprintf("  runaway loop: %d events", f.loop.Events)
	if f.loop.Tripped {
		loop += fmt.Sprintf(", ended by the breaker after %.1f s", f.loop.After.Seconds())
	}
	if f.loop.Refused != nil {
		loop += ", next reservation refused: " + f.loop.Refused.Code
	}
	return append(lines, loop)
}

// cents cuts an amount to two places, for the eye only.
func cents(usd string) string {
	whole, fraction, _ := strings.Cut(usd, ".")
	return whole + "." + (fraction + "00")[:2]
}
