package admission

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/obs"
)

// Goal: what net/http refuses by itself is what the page of codes says: no problem document, the end of the connection, and of
// which statuses. Method: one request for each, as bytes; no handler may see it.
func TestRefusedBeforeItIsARequest(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- obs.Serve(ctx, l, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("handled: %+v", r) }), 20*time.Second)
	}()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	page := string(codesPage())
	for request, status := range map[string]int{
		"GET\r\n\r\n":                                                             400,
		"GET / HTTP/1.1\r\n\r\n":                                                  400,
		"GET / HTTP/1.1\r\nHost: a b\r\n\r\n":                                     400,
		"GET / HTTP/1.1\r\nHost: a\r\nno header\r\n\r\n":                          400,
		"\x16\x03\x01\x00\x05":                                                    400,
		"POST / HTTP/1.1\r\nHost: a\r\nExpect: money\r\n\r\n":                     417,
		"GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 80<<10) + "\r\n": 431,
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n":           501,
		"GET / HTTP/3.0\r\nHost: a\r\n\r\n":                                       505,
	} {
		name := fmt.Sprintf("%.60q", request)
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		_, _ = io.WriteString(conn, request) // who is answered before the end need not take it; the answer tells
		if tcp, ok := conn.(*net.TCPConn); ok && !strings.HasSuffix(request, "\n") {
			_ = tcp.CloseWrite() // what is no text has no last line
		}
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		body, _ := io.ReadAll(answer.Body)
		_ = conn.Close()
		if kind := answer.Header.Get("Content-Type"); answer.StatusCode != status || !answer.Close || len(body) > 0 && !strings.HasPrefix(kind, "text/plain") {
			t.Errorf("%s: %d %q %q, the connection ends: %v; want %d", name, answer.StatusCode, kind, body, answer.Close, status)
		}
		if !strings.Contains(page, fmt.Sprintf("%d for ", status)) {
			t.Errorf("the page of codes does not say when %d comes", status)
		}
	}
}
