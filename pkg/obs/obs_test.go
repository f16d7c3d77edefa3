package obs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/obs"
)

func TestLogger(t *testing.T) {
	for _, c := range []struct{ level, format, want string }{
		{"info", "json", `"service":"breaker","tenant_id":"acme"`},
		{"INFO", "text", "service=breaker tenant_id=acme"},
		{"warn", "json", ""},
	} {
		var b strings.Builder
		l, err := obs.NewLogger(&b, c.level, c.format, "breaker")
		if err != nil {
			t.Fatal(err)
		}
		l.Info("started", obs.TenantID, "acme")
		if !strings.Contains(b.String(), c.want) || (c.want == "") != (b.Len() == 0) {
			t.Errorf("%+v: %s", c, b.String())
		}
	}
	for _, bad := range [][2]string{{"loud", "json"}, {"info", "xml"}} {
		if _, err := obs.NewLogger(io.Discard, bad[0], bad[1], "x"); err == nil {
			t.Errorf("%v was taken", bad)
		}
	}
}

func serve(t *testing.T, s *obs.Server) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	end := make(chan error, 1)
	go func() { end <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-end; err != nil {
			t.Error(err)
		}
	})
	return "http://" + l.Addr().String()
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// coded is an error whose words may change.
type coded struct{ error }

func (coded) ReadyCode() string { return "the_code" }

func TestPaths(t *testing.T) {
	s := obs.NewServer(obs.NewRegistry())
	var redisErr error
	caughtUp := false
	s.AddCheck("redis", func(context.Context) error { return redisErr })
	s.AddCatalog("catalog.prices.v1", func() bool { return caughtUp }, func() map[int32]int64 { return map[int32]int64{0: 5, 1: 0} })
	url := serve(t, s)

	for _, redisErr = range []error{errors.New("connection refused"), fmt.Errorf("epoch 7: %w", coded{errors.New("recovering")})} {
		code, body := get(t, url+"/readyz")
		var answer obs.NotReady
		if err := json.Unmarshal([]byte(body), &answer); err != nil || code != 503 || len(answer.Reasons) != 2 ||
			answer.Reasons["redis"] != redisErr.Error() || answer.Reasons["catalog.prices.v1"] != "not caught up" {
			t.Errorf("%d %s", code, body)
		}
		if want := errors.As(redisErr, new(coded)); want != (answer.Codes["redis"] == "the_code") || want != strings.Contains(body, "codes") || len(answer.Codes) > 1 {
			t.Errorf("codes: %s", body)
		}
	}
	if code, _ := get(t, url+"/healthz"); code != 200 {
		t.Errorf("healthz %d while not ready", code)
	}
	redisErr, caughtUp = nil, true
	if code, body := get(t, url+"/readyz"); code != 200 || body != "{\"status\":\"ready\"}\n" {
		t.Errorf("%d %s", code, body)
	}
	if _, body := get(t, url+"/catalogz"); body != "{\"catalog.prices.v1\":{\"0\":5,\"1\":0}}\n" {
		t.Error(body)
	}
	if code, body := get(t, url+"/metrics"); code != 200 || !strings.Contains(body, "go_goroutines") {
		t.Error(code)
	}
}

func TestHungCheckTimesOut(t *testing.T) {
	s := obs.NewServer(obs.NewRegistry())
	s.AddCheck("hung", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
	if code, body := get(t, serve(t, s)+"/readyz"); code != 503 || !strings.Contains(body, "hung") {
		t.Errorf("%d %s", code, body)
	}
}

func TestServeFinishesRequestsInFlight(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	entered, leave := make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	end := make(chan error, 1)
	go func() {
		end <- obs.Serve(ctx, l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			close(entered)
			<-leave
			_, _ = io.WriteString(w, "done")
		}), time.Minute)
	}()
	body := make(chan string, 1)
	go func() {
		resp, err := http.Get("http://" + l.Addr().String())
		if err != nil {
			body <- err.Error()
			return
		}
		b, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		body <- string(b)
	}()
	<-entered
	cancel()
	close(leave)
	if got := <-body; got != "done" {
		t.Error(got)
	}
	if err := <-end; err != nil {
		t.Error(err)
	}
}
