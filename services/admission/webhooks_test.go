//go:build integration

package admission

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/identity"
)

const (
	testSlackSecret    = "slack-signing-secret-of-the-tests"
	testTelegramSecret = "telegram-secret-of-the-tests"
)

func bots(t *testing.T) func(*Config) {
	t.Helper()
	slack, err := identity.NewSlackVerifier(testSlackSecret)
	if err != nil {
		t.Fatal(err)
	}
	telegram, err := identity.NewTelegramVerifier("111:" + testTelegramSecret)
	if err != nil {
		t.Fatal(err)
	}
	return func(c *Config) { c.Slack, c.Telegram = slack, telegram }
}

func slackHeaders(secret, body string, at time.Time) []string {
	stamp := fmt.Sprint(at.Unix())
	m := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(m, "v0:%s:%s", stamp, body)
	return []string{"X-Slack-Request-Timestamp", stamp, "X-Slack-Signature", "v0=" + hex.EncodeToString(m.Sum(nil))}
}

// chatWorld has a tenant for a Slack team and a Telegram user, and one for neither.
func chatWorld(t *testing.T) *world {
	t.Helper()
	acme := contract()
	acme.Identities = []string{"slack:T0ACME", "telegram:111:42"}
	return newWorld(t, map[string]tenant.Contract{"acme": acme, "beta": contract()})
}

// Goal: only Slack's own, fresh request gives a token, once over all replicas, and for the team's tenant alone. Method:
// one row an attack; the token's tenant is proved by using it.
func TestFromSlack(t *testing.T) {
	w := chatWorld(t)
	r, other := w.start(bots(t)), w.start(bots(t))
	now := time.Now()
	event := func(n int) string {
		return fmt.Sprintf(`{"type":"event_callback","team_id":"T0ACME","event_id":"Ev%d","event":{"user":"U7","text":"hi"},"tenant":"beta","tenant_id":"beta"}`, n)
	}
	send := func(r *replica, body string, headers ...string) (int, object) {
		t.Helper()
		status, out, _ := r.do("POST", "/v1/executions:from-slack", "", body, headers...)
		return status, out
	}
	good := slackHeaders(testSlackSecret, event(1), now)
	status, made := send(r, event(1), good...)
	w.want("genuine", status, made, 201, "root_execution_id", "slack:Ev1", "agent_id", "slack:T0ACME:U7", "depth", "0")
	status, out := r.reserve("acme", "r1", 1, object{"execution_token": made["token"]})
	w.want("the token is acme's", status, out, 201)
	status, out = r.reserve("beta", "r1", 1, object{"execution_token": made["token"]})
	w.want("and not beta's", status, out, 403, "code", "forbidden_tenant")
	for _, c := range []struct {
		name    string
		r       *replica
		body    string
		headers []string
		status  int
		code    string
	}{
		{"replayed", r, event(1), good, 401, "unauthenticated"}, {"replayed at another replica", other, event(1), good, 401, "unauthenticated"},
		{"altered body", r, strings.Replace(event(2), "U7", "U8", 1), slackHeaders(testSlackSecret, event(2), now), 401, "unauthenticated"},
		{"old timestamp", r, event(2), slackHeaders(testSlackSecret, event(2), now.Add(-6*time.Minute)), 401, "unauthenticated"},
		{"future timestamp", r, event(2), slackHeaders(testSlackSecret, event(2), now.Add(6*time.Minute)), 401, "unauthenticated"},
		{"wrong secret", r, event(2), slackHeaders(strings.Repeat("x", 32), event(2), now), 401, "unauthenticated"},
		{"no headers", r, event(2), nil, 401, "unauthenticated"},
		{"an API key instead", r, event(2), []string{"Authorization", "Bearer " + w.keys["acme"]}, 401, "unauthenticated"},
		{"a team that no tenant lists", r, `{"team_id":"T0NOBODY"}`, slackHeaders(testSlackSecret, `{"team_id":"T0NOBODY"}`, now), 403, "forbidden_tenant"},
		{"a team in another case", r, `{"team_id":"t0acme"}`, slackHeaders(testSlackSecret, `{"team_id":"t0acme"}`, now), 403, "forbidden_tenant"},
		{"a tenant in a header", r, event(3), append(slackHeaders(testSlackSecret, event(3), now), tenantHeader, "beta"), 403, "forbidden_tenant"},
		{"names no team", r, `{"type":"url_verification"}`, slackHeaders(testSlackSecret, `{"type":"url_verification"}`, now), 400, "invalid_argument"},
		{"two teams", r, `{"team_id":"T0ACME","team_id":"T1"}`, slackHeaders(testSlackSecret, `{"team_id":"T0ACME","team_id":"T1"}`, now), 400, "invalid_argument"},
	} {
		status, out := send(c.r, c.body, c.headers...)
		w.want(c.name, status, out, c.status, "code", c.code)
	}
	// A refusal uses nothing up, and a second delivery of an event resumes its execution.
	status, out = send(other, event(3), slackHeaders(testSlackSecret, event(3), now)...)
	w.want("refused before", status, out, 201)
	status, out = send(r, event(3), slackHeaders(testSlackSecret, event(3), now.Add(time.Second))...)
	w.want("delivered again", status, out, 201, "root_execution_id", "slack:Ev3")
	command := "team_id=T0ACME&user_id=U9&command=%2Fask&text=hi"
	status, out, _ = r.do("POST", "/v1/executions:from-slack?cost_center=sales&max_cost_usd=0.5&agent_id=helper&root_execution_id=thread-1", "", command, slackHeaders(testSlackSecret, command, now)...)
	w.want("a command", status, out, 201, "root_execution_id", "thread-1", "agent_id", "helper", "max_cost_usd", "0.5")
	status, out, _ = r.do("POST", "/v1/executions:from-slack?tenant=beta", "", command+"2", slackHeaders(testSlackSecret, command+"2", now)...)
	w.want("a tenant in the query", status, out, 400, "code", "invalid_argument", "field", "tenant")
	w.kill(admit.Kill{Scope: admit.KillTenant("acme"), On: true, Version: 1})
	w.eventually("killed", func() error {
		if status, out := send(r, event(4), slackHeaders(testSlackSecret, event(4), now)...); status != 503 || out["code"] != "killed" {
			return fmt.Errorf("%d %v", status, out)
		}
		return nil
	})
}

// Goal: many copies of one request at many replicas start one execution; while Redis is away the answer is "again", and
// again then works.
func TestFromSlackOnce(t *testing.T) {
	w := chatWorld(t)
	replicas := []*replica{w.start(bots(t)), w.start(bots(t))}
	soon := w.start(bots(t), func(c *Config) { c.Deadline = time.Second })
	body := `{"team_id":"T0ACME","event_id":"Ev1"}`
	headers := slackHeaders(testSlackSecret, body, time.Now())
	var wg sync.WaitGroup
	answers := make([]int, 16)
	for i := range answers {
		wg.Go(func() { answers[i], _, _ = replicas[i%2].do("POST", "/v1/executions:from-slack", "", body, headers...) })
	}
	wg.Wait()
	count := map[int]int{}
	for _, a := range answers {
		count[a]++
	}
	// The others were sent before, or meet the first while it is at work.
	if count[201] != 1 || count[401]+count[503] != 15 {
		t.Errorf("%v", count)
	}
	w.must(syscall.Kill(w.redis.PID, syscall.SIGSTOP))
	t.Cleanup(func() { _ = syscall.Kill(w.redis.PID, syscall.SIGCONT) })
	body = `{"team_id":"T0ACME","event_id":"Ev2"}`
	headers = slackHeaders(testSlackSecret, body, time.Now())
	status, out, header := soon.do("POST", "/v1/executions:from-slack", "", body, headers...)
	if status != 503 || header.Get("Retry-After") == "" {
		t.Errorf("Redis is away: %d %v", status, out)
	}
	w.must(syscall.Kill(w.redis.PID, syscall.SIGCONT))
	w.eventually("again", func() error {
		if status, out, _ := soon.do("POST", "/v1/executions:from-slack", "", body, headers...); status != 201 {
			return fmt.Errorf("%d %v", status, out)
		}
		return nil
	})
}

// Goal: only who knows the bot's secret gets a token, for the tenant that lists bot and user.
func TestFromTelegram(t *testing.T) {
	w := chatWorld(t)
	r := w.start(bots(t))
	update := func(user int) string {
		return fmt.Sprintf(`{"update_id":9,"tenant":"beta","message":{"from":{"id":%d},"text":"hi"}}`, user)
	}
	const header = "X-Telegram-Bot-Api-Secret-Token"
	for _, c := range []struct {
		name, body string
		headers    []string
		status     int
		code       string
	}{
		{"genuine", update(42), []string{header, testTelegramSecret}, 201, "<nil>"},
		{"delivered again", update(42), []string{header, testTelegramSecret}, 201, "<nil>"},
		{"another user", update(43), []string{header, testTelegramSecret}, 403, "forbidden_tenant"},
		{"wrong secret", update(42), []string{header, testTelegramSecret + "x"}, 401, "unauthenticated"},
		{"no secret", update(42), nil, 401, "unauthenticated"},
		{"a tenant in a header", update(42), []string{header, testTelegramSecret, tenantHeader, "beta"}, 403, "forbidden_tenant"},
		{"no sender", `{"update_id":9,"channel_post":{}}`, []string{header, testTelegramSecret}, 400, "invalid_argument"},
	} {
		status, out, _ := r.do("POST", "/v1/executions:from-telegram", "", c.body, c.headers...)
		w.want(c.name, status, out, c.status, "code", c.code)
		if status == http.StatusCreated && out["root_execution_id"] != "telegram:111:9" {
			t.Errorf("%v", out)
		}
	}
	plain := w.start()
	for _, path := range []string{"/v1/executions:from-slack", "/v1/executions:from-telegram"} {
		status, out, _ := plain.do("POST", path, w.keys["acme"], object{})
		w.want("not configured", status, out, 404, "code", "not_found")
	}
}
