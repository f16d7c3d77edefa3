//go:build integration

package admission

import (
	"net/http"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/domain/tenant"
)

// Goal: every route answers as /openapi.json has it, which anyone may read. Method: each is taken once, on a server with
// everything configured; what was asked and answered is held against the document.
func TestEveryRouteAsDescribed(t *testing.T) {
	acme := contract()
	acme.Identities = []string{"slack:T0ACME", "telegram:111:42"}
	w := newWorld(t, map[string]tenant.Contract{"acme": acme})
	b := w.startBoth(bots(t))
	key, slack := w.keys["acme"], `{"team_id":"T0ACME","event_id":"Ev1","event":{"user":"U7"}}`
	event := object{"specversion": "1.0", "id": "e1", "source": "test", "type": "weir.usage.v1", "data": object{"provider": "openai", "model": "flat", "meters": object{"output_tokens": 1}}}
	taken := map[string]bool{}
	for _, c := range []struct {
		pattern, path, key string
		body               any
		status             int
		headers            []string
	}{
		{"POST /v1/executions", "", key, object{"agent_id": "a", "root_execution_id": "x1", "max_cost_usd": "5", "max_depth": 3}, 201, nil},
		{"POST /v1/executions/{root}/close", "/v1/executions/x1/close", key, nil, 200, nil},
		{"POST /v1/reservations", "", key, cents("r1", 5), 201, nil},
		{"POST /v1/reservations", "", key, cents("r1", 5), 200, nil},
		{"POST /v1/reservations:batch", "", key, object{"reservations": []any{cents("r2", 5), cents("r3", 5)}}, 200, nil},
		{"GET /v1/reservations/{id}", "/v1/reservations/r1", key, nil, 200, nil},
		{"POST /v1/reservations/{id}/extend", "/v1/reservations/r1/extend", key, object{"lease_seconds": 60, "output_tokens_so_far": 9}, 200, nil},
		{"POST /v1/reservations/{id}/settle", "/v1/reservations/r1/settle", key, object{"usage": object{"prompt_tokens": 1, "completion_tokens": 2}, "api": "chat.completions"}, 200, nil},
		{"POST /v1/reservations/{id}/settle", "/v1/reservations/r2/settle", key, object{"cache_hit": "exact"}, 200, nil},
		{"POST /v1/reservations/{id}/release", "/v1/reservations/r3/release", key, nil, 200, nil},
		{"GET /v1/reservations/{id}", "/v1/reservations/r3", key, nil, 200, nil},
		{"GET /v1/budget", "/v1/budget?agent_id=a&cost_center=research", key, nil, 200, nil},
		{"POST /v1/events", "", key, event, 204, []string{"Content-Type", "application/cloudevents+json"}},
		{"POST /api/v1/events", "", key, []any{event}, 204, []string{"Content-Type", "application/json"}},
		{"POST /v1/executions:from-slack", "", "", slack, 201, append(slackHeaders(testSlackSecret, slack, time.Now()), "Content-Type", "application/json")},
		{"POST /v1/executions:from-telegram", "", "", `{"update_id":9,"message":{"from":{"id":42},"text":"hi"}}`, 201,
			[]string{"X-Telegram-Bot-Api-Secret-Token", testTelegramSecret, "Content-Type", "application/json"}},
		{"GET /openapi.json", "", "", nil, 200, nil},
	} {
		method, path := methodAndPath(c.pattern, c.path)
		status, out, header := b.do(method, path, c.key, c.body, c.headers...)
		w.want(c.pattern, status, out, c.status)
		b.described(method, path, c.body, c.headers, status, out, header)
		taken[c.pattern] = true
		if c.key == "" { // the same without its credential, where it needs one
			continue
		}
		status, out, header = b.do(method, path, "", c.body, c.headers...)
		w.want(c.pattern+" by nobody", status, out, http.StatusUnauthorized, "code", "unauthenticated")
		b.described(method, path, c.body, c.headers, status, out, header)
	}
	for _, r := range b.svc.table() {
		if !taken[r.pattern] {
			t.Errorf("%s was not taken", r.pattern)
		}
	}
}

// methodAndPath are those of a pattern, with a path of its own where it names something.
func methodAndPath(pattern, path string) (string, string) {
	for i := range pattern {
		if pattern[i] == ' ' {
			if path == "" {
				path = pattern[i+1:]
			}
			return pattern[:i], path
		}
	}
	return pattern, path
}
