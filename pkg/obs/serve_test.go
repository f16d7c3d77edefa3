package obs_test

import (
	"context"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/obs"
)

// Goal: a connection on which no request ever came does not hold up the end: net/http alone would take its whole grace
// and then call the end a failure.
func TestServeEndsWithUnusedConnections(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	end := make(chan error, 1)
	go func() { end <- obs.Serve(ctx, l, http.NotFoundHandler(), 2*time.Second) }()
	silent, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	resp, err := http.Get("http://" + l.Addr().String()) // accepted after the silent one, so that one is known by now
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	cancel()
	if err := <-end; err != nil {
		t.Error(err)
	}
	if _, err := silent.Read(make([]byte, 1)); err == nil {
		t.Error("the silent connection was answered")
	}
}
