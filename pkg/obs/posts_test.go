package obs_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/obs"
)

// serving runs Serve until the test ends or stop is called, which gives its error.
func serving(t *testing.T, h http.HandlerFunc, grace time.Duration) (address string, stop func() error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	end := make(chan error, 1)
	go func() { end <- obs.Serve(ctx, l, h, grace) }()
	stop = func() error {
		cancel()
		err := <-end
		end <- err
		return err
	}
	t.Cleanup(func() { _ = stop() })
	return l.Addr().String(), stop
}

// byNetHTTP reports whether net/http handed the request on.
func byNetHTTP(r *http.Request) bool { return r.Context().Value(http.ServerContextKey) != nil }

// echo tells what it was asked, and answers as its path says.
func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	switch r.URL.Path {
	case "/none":
		w.WriteHeader(http.StatusNoContent)
		return
	case "/silent":
		return
	case "/typed":
		w.Header()["Content-Type"] = []string{"application/json"}
		w.Header().Set("Retry-After", "3\r\nX-Forged: 1")
		w.Header().Add("A", "b")
		w.Header().Add("A", "c")
		w.WriteHeader(http.StatusTooManyRequests)
		w.WriteHeader(http.StatusOK) // too late
	case "/early":
		w.WriteHeader(http.StatusEarlyHints)
	case "/last":
		w.Header().Set("Connection", "close")
	}
	_, _ = fmt.Fprintf(w, "%s %s %s %q %q", r.Method, r.URL.Path, r.Host, r.Header["X"], body)
}

func post(path, header, body string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n%s\r\n%s", path, len(body), header, body)
}

// Goal: whatever comes on a connection, plain or not, in whatever pieces, is answered as by net/http alone.
func TestPostsAnswerAsNetHTTP(t *testing.T) {
	plainOnes := post("/", "X: y\r\n", "ab") + post("/none", "", "") + post("/silent", "", "") + post("/typed", "", "") + post("/", "", "c")
	for name, parts := range map[string][]string{
		"plain":                  {post("/", "X: y\r\n", "ab"), post("/none", "", ""), post("/silent", "", ""), post("/typed", "", "x"), post("/", "", strings.Repeat("a", 5000))},
		"one after the other":    {plainOnes},
		"then another method":    {post("/", "", "ab"), "GET /x HTTP/1.1\r\nHost: h\r\n\r\n", post("/", "", "cd")},
		"then chunks":            {post("/", "", "ab"), "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n", post("/", "", "cd")},
		"chunks and a length":    {post("/", "Transfer-Encoding: chunked\r\n", "0\r\n\r\n") + post("/smuggled", "", "")},
		"then the last":          {post("/", "", "ab"), post("/", "Connection: close\r\n", "cd"), post("/never", "", "")},
		"the answer is the last": {post("/last", "", "ab"), post("/never", "", "")},
		"in pieces":              {"PO", "ST / HTTP/1.1\r\nHost: h\r\nContent-Le", "ngth: 2\r\n\r", "\na", "b", post("/", "", "cd")},
		"a body in pieces":       {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n", "a", "b" + post("/", "", "cd")},
		"a long one":             {post("/", "", "ab"), post("/", "X: "+strings.Repeat("x", 9000)+"\r\n", "cd"), post("/", "", strings.Repeat("a", 20000)), post("/", "", "e")},
		"an end in its midst":    {post("/", "", "ab"), "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\na"},
		"nonsense":               {post("/", "", "ab"), "nonsense\r\n\r\n"},
		"no host":                {post("/", "", "ab"), "POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n"},
		"an old client":          {"POST / HTTP/1.0\r\nContent-Length: 2\r\n\r\nab"},
		"an early hint":          {"GET / HTTP/1.1\r\nHost: h\r\n\r\n", post("/early", "", "")},
		"nothing":                {""},
	} {
		t.Run(name, func(t *testing.T) {
			ours, _ := serving(t, echo, time.Second)
			theirs := run(t, &http.Server{Handler: http.HandlerFunc(echo)})
			got, want := exchange(t, ours, parts), exchange(t, theirs, parts)
			if !slices.Equal(got, want) {
				t.Errorf("answers\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}

// exchange sends parts, then no more, and gives the answers.
func exchange(t *testing.T, address string, parts []string) (answers []string) {
	t.Helper()
	c := dial(t, address)
	go func() {
		for _, part := range parts {
			if _, err := io.WriteString(c, part); err != nil {
				return // it was the last
			}
		}
		_ = c.(*net.TCPConn).CloseWrite()
	}()
	in := bufio.NewReader(c)
	for {
		answer, err := http.ReadResponse(in, &http.Request{Method: http.MethodPost})
		if err != nil {
			return answers
		}
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Error(err)
		}
		if answer.Header.Get("Date") == "" && answer.StatusCode == http.StatusOK {
			t.Error("an answer without its time")
		}
		answer.Header.Del("Date")
		text := fmt.Sprint(answer.Status, " ", answer.ContentLength, " ", answer.Close, " ", answer.TransferEncoding)
		for _, name := range slices.Sorted(maps.Keys(answer.Header)) {
			text += fmt.Sprintf(" %s=%q", name, answer.Header[name])
		}
		answers = append(answers, text+" "+string(body))
	}
}

// Goal: plain requests do without net/http, each of a connection, and another one brings it to net/http for good.
func TestPostsDoWithoutNetHTTP(t *testing.T) {
	address, _ := serving(t, func(w http.ResponseWriter, r *http.Request) { _, _ = fmt.Fprint(w, byNetHTTP(r), r.RemoteAddr) }, time.Second)
	c := dial(t, address)
	in := bufio.NewReader(c)
	for i, sent := range []string{post("/", "", "a"), post("/", "", "a"), "GET / HTTP/1.1\r\nHost: h\r\n\r\n", post("/", "", "a")} {
		if _, err := io.WriteString(c, sent); err != nil {
			t.Fatal(err)
		}
		answer, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		if want := fmt.Sprint(i >= 2, c.LocalAddr().String()); err != nil || string(body) != want {
			t.Errorf("request %d: %q, %v; want %q", i, body, err, want)
		}
	}
}

// Goal: at the end a connection that waits for a further request is closed at once, a request in flight is answered as the last
// of its connection, and one that takes longer than the grace ends it with an error.
func TestPostsEnd(t *testing.T) {
	begun, goOn := make(chan struct{}, 2), make(chan struct{})
	h := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/waits" {
			begun <- struct{}{}
			<-goOn
		}
		_, _ = io.WriteString(w, "done")
	}
	address, stop := serving(t, h, 5*time.Second)
	idle, busy := dial(t, address), dial(t, address)
	ask := func(c net.Conn, path string) {
		if _, err := io.WriteString(c, post(path, "", "")); err != nil {
			t.Fatal(err)
		}
	}
	ask(idle, "/")
	if _, err := http.ReadResponse(bufio.NewReader(idle), nil); err != nil {
		t.Fatal(err)
	}
	ask(busy, "/waits")
	<-begun
	ended := make(chan error, 1)
	go func() { ended <- stop() }()
	if rest, err := io.ReadAll(idle); err != nil || !strings.HasSuffix(string(rest), "done") && len(rest) > 0 {
		t.Errorf("the idle connection: %q, %v", rest, err)
	}
	close(goOn)
	if answer, err := io.ReadAll(busy); err != nil || !strings.HasSuffix(string(answer), "\r\n\r\ndone") || !strings.Contains(string(answer), "Connection: close\r\n") {
		t.Errorf("in flight: %q, %v", answer, err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}

	goOn = make(chan struct{})
	defer close(goOn)
	address, stop = serving(t, h, 20*time.Millisecond)
	stuck := dial(t, address)
	ask(stuck, "/waits")
	<-begun
	if err := stop(); err == nil || !strings.Contains(err.Error(), "in flight") {
		t.Errorf("the grace ended with %v", err)
	}
	if answer, err := io.ReadAll(stuck); len(answer) > 0 {
		t.Errorf("answered %q, %v after the end", answer, err)
	}
}

// Goal: a handler that panics ends its connection with a 500, and no other connection.
func TestPostsPanic(t *testing.T) {
	address, _ := serving(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/panics" {
			_, _ = io.WriteString(w, "half")
			panic("a defect")
		}
	}, time.Second)
	other := dial(t, address)
	for range 2 {
		if got := exchange(t, address, []string{post("/panics", "", "")}); len(got) != 1 || !strings.Contains(got[0], "true") || !strings.HasPrefix(got[0], "500 ") || strings.Contains(got[0], "half") {
			t.Errorf("answers %q", got)
		}
	}
	if _, err := io.WriteString(other, post("/", "", "")); err != nil {
		t.Fatal(err)
	}
	if answer, err := http.ReadResponse(bufio.NewReader(other), nil); err != nil || answer.StatusCode != http.StatusOK {
		t.Errorf("%v, %v", answer, err)
	}
}
