//go:build integration

package admission

import (
	"fmt"
	"testing"
	"time"
)

// Goal: what Redis remembered of taken webhooks is lost with it, so a request that was signed before the end of the recovery
// is not taken again; one that was signed after it is.
func TestWebhooksOfALostRedis(t *testing.T) {
	t.Parallel()
	w := chatWorld(t)
	w.pipeline()
	r := w.start(bots(t))
	event := func(n int) string {
		return fmt.Sprintf(`{"type":"event_callback","team_id":"T0ACME","event_id":"Ev%d","event":{"user":"U7","text":"hi"}}`, n)
	}
	taken := slackHeaders(testSlackSecret, event(1), time.Now())
	status, out, _ := r.do("POST", "/v1/executions:from-slack", "", event(1), taken...)
	w.want("genuine", status, out, 201)
	w.redisCommand("FLUSHALL")
	w.recovers(r, "acme", "after")
	status, out, _ = r.do("POST", "/v1/executions:from-slack", "", event(1), taken...)
	w.want("replayed", status, out, 401, "code", "unauthenticated")
	w.eventually("a new request is taken", func() error {
		body := event(int(time.Now().UnixNano() % 1e9))
		status, out, _ := r.do("POST", "/v1/executions:from-slack", "", body, slackHeaders(testSlackSecret, body, time.Now())...)
		if status != 201 {
			return fmt.Errorf("%d %v", status, out)
		}
		return nil
	})
}
