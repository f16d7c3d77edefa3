//go:build integration

package main

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/audit"
	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/usageevent"
)

// Goal: books that still move are told from a difference: exit 3, what moves is said first and in --json, and at rest the
// audit is ok. Method: the relay stands still, then the attributor; at the end Redis is lost.
func TestAuditOfMovingBooks(t *testing.T) {
	root := here(t)
	longLease(t)
	p := newInstance(t)
	p.must("up")
	s := newStage(t, p)
	s.traffic(root)
	s.ok("before")
	key := decodeJSON[map[string]any](t, p.must("keys", "create", "--tenant", "acme", "--json"))["key"].(string)

	moves := func(word string) {
		t.Helper()
		a := s.run("audit", "--wait", "1s")
		if first, _, _ := strings.Cut(a.out, "\n"); a.code != 3 || !strings.HasPrefix(first, "not settled yet") || !strings.Contains(first, word) {
			t.Errorf("%q moves: %+v", word, a)
		}
		r := decodeJSON[audit.Report](t, s.run("audit", "--wait", "1s", "--json"))
		if r.OK || r.Settled || !strings.Contains(strings.Join(r.Moving, "; "), word) {
			t.Errorf("%q moves: %+v", word, r)
		}
	}
	standing := func(name string, do func(), word string) {
		t.Helper()
		p.signal(name, syscall.SIGSTOP)
		do()
		moves(word)
		p.signal(name, syscall.SIGCONT)
		s.ok(name + " goes on")
	}
	standing("outbox-relay", func() {
		if r := s.call("POST", "/v1/reservations/r2/settle", key, `{"api": "chat.completions", "usage": {"prompt_tokens": 1000, "completion_tokens": 10}}`); r.status != 200 {
			t.Fatalf("settle: %d %s", r.status, r.text)
		}
	}, "1 rows of the outbox")
	standing("cost-attributor", func() {
		ev := usageevent.Event{ID: "k9", Source: "test", Type: usageevent.TypeUsage, Subject: "acme", Time: time.Now().UTC(), Data: usageevent.Data{
			Provider: "openai", Model: "gpt-4o", AgentID: "scraper", Meters: map[string]money.Decimal{"input_tokens": money.NewDecimal(1000)}}}
		produce(t, s.log, bus.NewRecord(topics.UsageEvents, "acme", []byte("acme"), usageevent.Encode(ev)))
	}, "consumers are 1 records behind")
	if err := s.redis.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	p.wait("the loss is seen", func() bool {
		return strings.Contains(s.call("GET", "/v1/budget", key, "").text, "budget_store_recovering")
	})
	moves("made anew in Redis, in about")
	if a := s.run("audit", "--wait", "0s"); a.code != 3 || !strings.Contains(a.out, "\naudit: Redis was not compared") || strings.Contains(a.out, "\nredis") {
		t.Errorf("while a recovery runs: %+v", a)
	}
}
