package caller

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// scripted answers each request with the next of its answers.
func scripted(t *testing.T, answers ...func(http.ResponseWriter, *http.Request)) (*Client, *int) {
	t.Helper()
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked >= len(answers) {
			t.Errorf("unexpected request %d: %s", asked, r.URL)
			w.WriteHeader(http.StatusTeapot)
			return
		}
		answers[asked](w, r)
		asked++
	}))
	t.Cleanup(server.Close)
	return New(server.URL, "wk_k", HTTP(1)), &asked
}

func refuse(status int, retry, body string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		if retry != "" {
			w.Header().Set("Retry-After", retry)
		}
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}

func TestInsistRepeatsWhatMayBeRepeated(t *testing.T) {
	var bodies []string
	record := func(next func(http.ResponseWriter, *http.Request)) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, r *http.Request) {
			raw, _ := io.ReadAll(r.Body)
			bodies = append(bodies, r.Header.Get("Authorization")+string(raw))
			next(w, r)
		}
	}
	c, asked := scripted(t,
		record(refuse(429, "1", `{"code":"rate_limited","limit":"concurrency","retry_after_ms":1}`)),
		record(refuse(503, "1", `{"code":"budget_store_unavailable","retry_after_ms":1}`)),
		record(refuse(201, "", `{"state":"open","rung":2,"percent_used":81}`)))
	var seen []string
	var a Admission
	err := Insist(t.Context(), func(r *Refusal) { seen = append(seen, r.Code) }, func() (err error) {
		a, err = c.Reserve(t.Context(), Reservation{ID: "r1", Provider: "openai", Model: "m", Estimate: Estimate(1, 2)})
		return err
	})
	if err != nil || a.Rung != 2 || *asked != 3 || len(seen) != 2 || seen[0] != "rate_limited" {
		t.Fatalf("err %v, admission %+v, asked %d, seen %v", err, a, *asked, seen)
	}
	if bodies[0] != bodies[1] || bodies[1] != bodies[2] {
		t.Fatalf("a retry differs: %v", bodies)
	}
}

func TestInsistNeverRepeatsAQuota(t *testing.T) {
	c, asked := scripted(t, refuse(429, "", `{"code":"tenant_quota_exceeded","window":"month"}`))
	err := Insist(t.Context(), nil, func() error { _, err := c.Reserve(t.Context(), Reservation{ID: "r1"}); return err })
	var r *Refusal
	if !errors.As(err, &r) || r.Code != "tenant_quota_exceeded" || *asked != 1 {
		t.Fatalf("err %v after %d requests", err, *asked)
	}
}

func TestInsistEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	err := Insist(ctx, nil, func() error { cancel(); return errors.New("connection lost") })
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}
