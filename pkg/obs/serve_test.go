package obs_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
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
	go func() { end <- obs.Serve(ctx, l, http.NotFoundHandler(), 4*time.Second) }() // net/http waits for 5 s
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

// run serves until the test ends, with the server's limits, and returns where.
func run(t *testing.T, srv *http.Server) (address string) {
	t.Helper()
	l := listen(t)
	runOn(t, l, srv)
	return l.Addr().String()
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// runOn is run on a listener whose clients may have sent something already.
func runOn(t *testing.T, l net.Listener, srv *http.Server) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	end := make(chan error, 1)
	go func() { end <- obs.Run(ctx, obs.Unwatched(l), srv, time.Minute) }()
	t.Cleanup(func() {
		cancel()
		if err := <-end; err != nil {
			t.Error(err)
		}
	})
}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return c
}

const posted = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n"

// watched reports whether net/http waits for a client to hang up.
func watched() bool {
	stacks := make([]byte, 1<<20)
	return bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte("backgroundRead"))
}

// Goal: no goroutine waits beside the handler; a client that hangs up does not stop what was begun, and nothing of what it sent is lost: requests that come before
// the first is answered, the first byte of one alone, are answered in their order.
func TestUnwatched(t *testing.T) {
	begun, goOn, ended := make(chan struct{}), make(chan struct{}), make(chan error, 3)
	address := run(t, &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		begun <- struct{}{}
		<-goOn
		for until := time.Now().Add(30 * time.Second); watched(); runtime.Gosched() {
			if time.Now().After(until) {
				t.Error("net/http waits for the client to hang up: is it not the only one to read a single byte any more?")
				break
			}
		}
		ended <- r.Context().Err()
		_, _ = w.Write(body)
	})})
	c := dial(t, address)
	for _, part := range []string{posted + "a1", "P", posted[1:] + "b2" + posted + "c3"} {
		if _, err := io.WriteString(c, part); err != nil {
			t.Fatal(err)
		}
		if part == posted+"a1" {
			<-begun
		}
	}
	in := bufio.NewReader(c)
	for i, want := range []string{"a1", "b2"} {
		if i > 0 {
			<-begun
		}
		goOn <- struct{}{}
		answer, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(answer.Body); err != nil || string(got) != want {
			t.Errorf("answered %q, %v, not %q", got, err, want)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	<-begun
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	goOn <- struct{}{}
	if err := <-ended; err != nil {
		t.Errorf("the client's end was the handler's: %v", err)
	}
}

// Goal: net/http, whose buffer lacks a single byte, reads that one too. Method: such a buffer, and a client that sends the last
// byte when the others have been read.
func TestBufferThatLacksOneByte(t *testing.T) {
	l := listen(t)
	defer l.Close()
	client := dial(t, l.Addr().String())
	conn, err := obs.Unwatched(l).Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	in := bufio.NewReaderSize(conn, 16)
	for _, part := range []string{"a beginning of ", "1"} {
		if _, err := io.WriteString(client, part); err != nil {
			t.Fatal(err)
		}
		if _, err := in.Peek(in.Buffered() + len(part)); err != nil {
			t.Fatalf("with %d bytes in the buffer: %v", in.Buffered(), err)
		}
	}
}

// Goal: what bounds a connection still does: a request that does not come to its end, its header or its body, is cut off in
// time, a connection without a further request is closed, and a header has its bound.
func TestLimitsOfConnections(t *testing.T) {
	limits := func() *http.Server {
		return &http.Server{MaxHeaderBytes: 4 << 10, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.ReadAll(r.Body); err != nil {
				w.WriteHeader(http.StatusBadRequest)
			}
		})}
	}
	header, body, idle := limits(), limits(), limits()
	header.ReadHeaderTimeout, body.ReadTimeout, idle.IdleTimeout = 50*time.Millisecond, time.Second, 50*time.Millisecond
	// As long as net/http reads: if something were left, the connection would be reset, perhaps before the answer was read.
	long := "POST / HTTP/1.1\r\nHost: x\r\nA: "
	long += strings.Repeat("a", 4<<10+4096-len(long))
	for name, c := range map[string]struct {
		srv        *http.Server
		sent, want string // want begins the last answer
	}{
		"no end of the header": {header, "POST / HTTP/1.1\r\nHost: x\r\n", ""},
		"no end of the body":   {body, posted + "a", "HTTP/1.1 400 "},
		"no further request":   {idle, posted + "ab", "HTTP/1.1 200 "},
		"a long header":        {limits(), long, "HTTP/1.1 431 "},
	} {
		t.Run(name, func(t *testing.T) {
			l := listen(t)
			conn := dial(t, l.Addr().String())
			if _, err := io.WriteString(conn, c.sent); err != nil { // before the server looks at its clock
				t.Fatal(err)
			}
			runOn(t, l, c.srv)
			answer, err := io.ReadAll(io.LimitReader(conn, 1<<10))
			if err != nil || !strings.HasPrefix(string(answer), c.want) || c.want == "" && len(answer) > 0 {
				t.Errorf("answered %q, then %v", answer, err)
			}
		})
	}
}

// BenchmarkServe is a request with a body and an answer, both short, by one client after the other.
func BenchmarkServe(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	end := make(chan error, 1)
	go func() {
		end <- obs.Serve(ctx, l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(w, r.Body)
		}), time.Second)
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	in := bufio.NewReader(c)
	for b.Loop() {
		if _, err := fmt.Fprint(c, posted+"ab"); err != nil {
			b.Fatal(err)
		}
		answer, err := http.ReadResponse(in, nil)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, answer.Body); err != nil {
			b.Fatal(err)
		}
	}
	_ = c.Close()
	cancel()
	if err := <-end; err != nil {
		b.Error(err)
	}
}

// Goal: an answer to a request whose body nobody reads does not wait for it, and says that the connection ends; where the body
// is there already, it does not end. Method: a server that would wait for ever, a client that sends the rest only when it has
// been answered, or all at once and then another request.
func TestAnswerFirst(t *testing.T) {
	address := run(t, &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		obs.AnswerFirst(w, r, time.Now())
		w.WriteHeader(http.StatusUnauthorized)
	})})
	chunked := "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n"
	asking := "POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"
	for name, c := range map[string]struct{ sent, rest string }{
		"nothing of the body":   {posted, "ab"},
		"half of it":            {posted + "a", "b"},
		"a long one":            {strings.Replace(posted, ": 2", ": 900000", 1) + "a", strings.Repeat("b", 899_999)},
		"in chunks":             {chunked, "a\r\n0\r\n\r\n"},
		"if it were to be sent": {asking, ""},
		"the whole body":        {posted + "ab", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := dial(t, address)
			in := bufio.NewReader(conn)
			ends := name != "the whole body"
			for range 2 {
				if _, err := io.WriteString(conn, c.sent); err != nil {
					t.Fatal(err)
				}
				answer, err := http.ReadResponse(in, nil)
				if err != nil {
					t.Fatal(err)
				}
				if answer.StatusCode != http.StatusUnauthorized || answer.Close != ends {
					t.Errorf("answered %d, and the connection ends: %t", answer.StatusCode, answer.Close)
				}
				if ends {
					break
				}
			}
			if ends {
				_, _ = io.WriteString(conn, c.rest) // it may be closed by now
				if n, err := in.Read(make([]byte, 1)); n != 0 || err == nil {
					t.Errorf("after the answer: %d bytes, %v", n, err)
				}
			}
		})
	}
}
