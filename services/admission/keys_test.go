//go:build integration

package admission

import (
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/gen/weirv1"
	"github.com/weir-project/weir/pkg/identity"
)

// Goal: the token key is replaced while calls run: tokens of either key work at every replica, old and new, and the old
// key gets one end, which no restart moves.
func TestTokenKeyRotation(t *testing.T) {
	w := newWorld(t, one(contract()))
	behind := w.start() // rolls out last
	oldKey := w.tokenKey
	start := func(r *replica) (token string) {
		t.Helper()
		status, out, _ := r.do("POST", "/v1/executions", w.keys["acme"], object{"root_execution_id": "x1", "agent_id": "lead"})
		w.want("an execution", status, out, 201)
		return fmt.Sprint(out["token"])
	}
	works := func(what string, r *replica, token string) {
		t.Helper()
		w.eventually(what, func() error {
			status, out := r.reserve("acme", fmt.Sprint("r", time.Now().UnixNano()), 1, object{"execution_token": token})
			if status != 201 {
				return fmt.Errorf("%d %v", status, out)
			}
			return nil
		})
	}
	before := start(behind)
	newKey, err := identity.NewTokenKey(rand.Reader)
	w.must(err)
	rotated := func(c *Config) { c.TokenKey, c.OldTokenKeys = newKey, []*weirv1.SigningKey{oldKey.Record()} }
	r := w.start(rotated)
	after := start(r)
	works("an old token at a new replica", r, before)
	works("a new token at an old replica", behind, after)
	works("an old replica's new token at a new replica", r, start(behind))
	status, out, _ := r.do("POST", "/v1/executions", w.keys["acme"], object{"parent_token": before, "agent_id": "sub"})
	w.want("a child of an old token", status, out, 201, "depth", "1")
	end := func(r *replica) (end time.Time) {
		t.Helper()
		w.eventually("the old key has an end", func() error {
			k, ok := r.svc.catalogs.signing.Get(oldKey.ID)
			if !ok || k.GetNotAfter() == nil {
				return fmt.Errorf("%v", k)
			}
			end = k.GetNotAfter().AsTime()
			return nil
		})
		return end
	}
	first := end(r)
	if life := time.Until(first); life < time.Hour || life > 3*time.Hour {
		t.Errorf("it ends in %s", life)
	}
	if k, _ := r.svc.catalogs.signing.Get(newKey.ID); k.GetNotAfter() != nil {
		t.Errorf("the new key ends too: %v", k)
	}
	r.stop()
	r = w.start(rotated)
	works("after a restart", r, before)
	if again := end(r); !again.Equal(first) {
		t.Errorf("a restart moved the end from %s to %s", first, again)
	}
}
