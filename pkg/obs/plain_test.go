package obs

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const settlePost = "POST /v1/reservations/call-1_a.b~c:d/settle HTTP/1.1\r\nHost: localhost:8080\r\nUser-Agent: Go-http-client/1.1\r\nContent-Length: 2\r\n" +
	"Authorization: Bearer a.b-c\r\nContent-Type: application/json\r\naccept-encoding: gzip\r\nConnection: keep-alive\r\n\r\n{}"

// Goal: what posts JSON is plain, and whatever could mean another thing to somebody else is not.
func TestPlainRequest(t *testing.T) {
	swap := strings.NewReplacer
	for name, tc := range map[string]struct {
		sent        string
		plain, more bool
	}{
		"plain":              {settlePost, true, false},
		"no body":            {swap("Length: 2", "Length: 0", "{}", "").Replace(settlePost), true, false},
		"twice of a kind":    {swap("\r\nUser", "\r\nAccept: a\r\nACCEPT: b\r\nUser").Replace(settlePost), true, false},
		"an empty value":     {swap("gzip", " \t ").Replace(settlePost), true, false},
		"half of its head":   {settlePost[:40], false, true},
		"half of its body":   {settlePost[:len(settlePost)-1], false, true},
		"nothing":            {"", false, true},
		"another after it":   {settlePost + "P", false, false},
		"another method":     {swap("POST", "PUT").Replace(settlePost), false, false},
		"another version":    {swap("HTTP/1.1", "HTTP/1.0").Replace(settlePost), false, false},
		"a query":            {swap("/settle", "/settle?a=b").Replace(settlePost), false, false},
		"an escaped path":    {swap("/settle", "/%73ettle").Replace(settlePost), false, false},
		"a whole address":    {swap("POST /", "POST http://x/").Replace(settlePost), false, false},
		"two slashes":        {swap("POST /", "POST //").Replace(settlePost), false, false},
		"no Host":            {swap("Host: localhost:8080\r\n", "").Replace(settlePost), false, false},
		"two Hosts":          {swap("\r\nUser", "\r\nHost: x\r\nUser").Replace(settlePost), false, false},
		"no length":          {swap("Content-Length: 2\r\n", "").Replace(settlePost), false, false},
		"two lengths":        {swap("\r\nUser", "\r\nContent-Length: 2\r\nUser").Replace(settlePost), false, false},
		"a signed length":    {swap("Length: 2", "Length: +2").Replace(settlePost), false, false},
		"a list of lengths":  {swap("Length: 2", "Length: 2, 2").Replace(settlePost), false, false},
		"a long length":      {swap("Length: 2", "Length: 18446744073709551618").Replace(settlePost), false, false},
		"chunks":             {swap("\r\nUser", "\r\nTransfer-Encoding: chunked\r\nUser").Replace(settlePost), false, false},
		"chunks, oddly":      {swap("\r\nUser", "\r\ntransfer-encoding : chunked\r\nUser").Replace(settlePost), false, false},
		"it expects":         {swap("\r\nUser", "\r\nExpect: 100-continue\r\nUser").Replace(settlePost), false, false},
		"the last":           {swap("keep-alive", "close").Replace(settlePost), false, false},
		"an upgrade":         {swap("keep-alive", "upgrade").Replace(settlePost), false, false},
		"a folded line":      {swap("\r\nUser", "\r\n folded\r\nUser").Replace(settlePost), false, false},
		"a line without CR":  {swap("\r\nUser", "\nUser").Replace(settlePost), false, false},
		"a CR in a value":    {swap("gzip", "g\rzip").Replace(settlePost), false, false},
		"a NUL in a value":   {swap("gzip", "g\x00zip").Replace(settlePost), false, false},
		"an umlaut":          {swap("gzip", "gzüp").Replace(settlePost), false, false},
		"a space before ':'": {swap("User-Agent:", "User-Agent :").Replace(settlePost), false, false},
		"no name":            {swap("User-Agent:", ":").Replace(settlePost), false, false},
		"no colon":           {swap("User-Agent: ", "User-Agent ").Replace(settlePost), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			r, more := plainRequest([]byte(tc.sent))
			if (r != nil) != tc.plain || more != tc.more {
				t.Errorf("plain %v, more %v", r != nil, more)
			}
		})
	}
}

// FuzzPlainRequest: what is read as a plain request, net/http reads as the same one, to the last byte.
func FuzzPlainRequest(f *testing.F) {
	f.Add([]byte(settlePost))
	f.Add([]byte("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nA: b\r\na: c\r\n\r\n"))
	f.Add([]byte("POST /a HTTP/1.1\r\nhost:x\r\ncontent-length:007\r\nx:\r\n\r\n1234567"))
	f.Add([]byte("POST /../a HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) { readsAlike(t, b) })
}

// Goal: the same of heads made of lines of every kind, in any order and number.
func TestPlainPieces(t *testing.T) {
	first := []string{"POST / HTTP/1.1", "POST /a/./b HTTP/1.1", "POST /a:b HTTP/1.1", "POST /a  HTTP/1.1", "POST * HTTP/1.1", "GET / HTTP/1.1", "POST /%61 HTTP/1.1"}
	lines := []string{"Host: x", "host:y:1", "HOST: [::1]:8", "Content-Length: 3", "content-length: 003 ", "Content-Length:3,3", "Content-Length: -3", "Connection: keep-alive",
		"Connection: Keep-Alive", "Connection: close", "Connection: x", "Transfer-Encoding: chunked", "Transfer-Encoding: identity", "Expect: 100-continue", "Trailer: A", "Te: trailers",
		"Pragma: no-cache", "X: a", "x: b", "X-y-Z:\tc ", " folded", "Cookie: a=b; c=d", "", ": a", "a_b: c", "X: \x7f", "Accept: */*", "Date: today", "Upgrade: h2c"}
	plain := 0
	rapid.Check(t, func(t *rapid.T) {
		head := append([]string{rapid.SampledFrom(first).Draw(t, "first"), "Host: h", "Content-Length: 3"}, rapid.SliceOfN(rapid.SampledFrom(lines), 0, 4).Draw(t, "lines")...)
		if rapid.IntRange(0, 3).Draw(t, "drop") == 0 {
			head = append(head[:1], head[2:]...)
		}
		if readsAlike(t, []byte(strings.Join(head, "\r\n")+"\r\n\r\nabc")) {
			plain++
		}
	})
	if plain == 0 {
		t.Error("none was plain")
	}
}

// readsAlike compares what plainRequest and net/http read; false where it is not plain.
func readsAlike(t interface {
	Errorf(string, ...any)
	Fatalf(string, ...any)
}, b []byte) bool {
	got, _ := plainRequest(b)
	if got == nil {
		return false
	}
	in := bufio.NewReader(bytes.NewReader(b))
	want, err := http.ReadRequest(in)
	if err != nil {
		t.Fatalf("net/http refuses it: %v", err)
	}
	gotBody, gotErr := io.ReadAll(got.Body)
	wantBody, wantErr := io.ReadAll(want.Body)
	if gotErr != nil || wantErr != nil || !bytes.Equal(gotBody, wantBody) {
		t.Errorf("body %q (%v), want %q (%v)", gotBody, gotErr, wantBody, wantErr)
	}
	if _, err := in.ReadByte(); err != io.EOF {
		t.Errorf("something is left: %v", err)
	}
	got.Body, want.Body = nil, nil
	for name, pair := range map[string][2]any{
		"method": {got.Method, want.Method}, "address": {*got.URL, *want.URL}, "request URI": {got.RequestURI, want.RequestURI}, "host": {got.Host, want.Host},
		"header": {got.Header, want.Header}, "length": {got.ContentLength, want.ContentLength}, "protocol": {got.Proto, want.Proto},
		"version": {[2]int{got.ProtoMajor, got.ProtoMinor}, [2]int{want.ProtoMajor, want.ProtoMinor}}, "close": {got.Close, want.Close},
		"encoding": {len(got.TransferEncoding), len(want.TransferEncoding)}, "trailer": {len(got.Trailer), len(want.Trailer)},
	} {
		if !reflect.DeepEqual(pair[0], pair[1]) {
			t.Errorf("%s is %+v, want %+v", name, pair[0], pair[1])
		}
	}
	return true
}
