package obs

import (
	"sync"
	"time"
)

// quietFor is how long after a log line the next one of its kind is dropped.
const quietFor = 10 * time.Second

// Quiet lets the first of each kind of log line through, and then one every ten seconds. Kinds are few: they are remembered
// for ever. The zero value is ready; it is safe for concurrent use.
type Quiet struct {
	mu   sync.Mutex
	last map[string]time.Time
}

// Pass reports whether a line of that kind is to be written now.
func (q *Quiet) Pass(kind string, now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if now.Sub(q.last[kind]) < quietFor {
		return false
	}
	if q.last == nil {
		q.last = map[string]time.Time{}
	}
	q.last[kind] = now
	return true
}
