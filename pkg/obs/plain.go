package obs

import (
	"bytes"
	"io"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
)

// plainRequest reads a request if it is plain and all of b, as whoever posts JSON sends it: POST, a path of names, HTTP/1.1, one
// Host, one Content-Length, and nothing that says more of the connection or of how the body is sent than keep-alive. What is
// read, net/http reads as the same request; a fuzz test holds the two against each other. more says that b may be the beginning
// of one. Everything else is net/http's to judge.
func plainRequest(b []byte) (r *http.Request, more bool) {
	end := bytes.Index(b, []byte("\r\n\r\n"))
	if end < 0 {
		return nil, true
	}
	line, lines, _ := strings.Cut(string(b[:end]), "\r\n")
	path, isPost := strings.CutPrefix(line, "POST ")
	path, isOne := strings.CutSuffix(path, " HTTP/1.1")
	if !isPost || !isOne || !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || !all(path, inPath) {
		return nil, false
	}
	r = &http.Request{Method: http.MethodPost, URL: &url.URL{Path: path}, RequestURI: path, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Body: http.NoBody, ContentLength: -1}
	if !addHeaders(r, lines) {
		return nil, false
	}
	body := b[end+len("\r\n\r\n"):]
	switch n := int64(len(body)) - r.ContentLength; {
	case n > 0:
		return nil, false
	case n < 0:
		return nil, true
	case len(body) > 0:
		here := new(plainBody)
		here.Reset(body)
		r.Body = here
	}
	return r, false
}

// addHeaders fills in what the lines after the first say; false if they are not plain.
func addHeaders(r *http.Request, lines string) bool {
	count := strings.Count(lines, "\r\n") + 1
	r.Header = make(http.Header, count)
	values := make([]string, 0, count) // of all headers
	for lines != "" {
		var line string
		line, lines, _ = strings.Cut(lines, "\r\n")
		name, value, ok := strings.Cut(line, ":")
		value = strings.Trim(value, " \t")
		if !ok || name == "" || !all(name, inName) || !all(value, printable) {
			return false
		}
		name = textproto.CanonicalMIMEHeaderKey(name)
		if !understood(r, name, value) {
			return false
		}
		if name == "Host" { // net/http has it there alone
			continue
		}
		if said, twice := r.Header[name]; twice {
			r.Header[name] = append(said, value)
			continue
		}
		values = append(values, value)
		r.Header[name] = values[len(values)-1 : len(values) : len(values)]
	}
	return r.Host != "" && r.ContentLength >= 0
}

// understood takes what a header says to the server itself; false if that is not plain.
func understood(r *http.Request, name, value string) bool {
	switch name {
	case "Host":
		ok := r.Host == "" && all(value, inHost)
		r.Host = value
		return ok
	case "Content-Length":
		if r.ContentLength >= 0 || value == "" || len(value) > 9 || !all(value, isDigit) {
			return false
		}
		r.ContentLength = 0
		for _, c := range []byte(value) {
			r.ContentLength = 10*r.ContentLength + int64(c-'0')
		}
		return true
	case "Connection":
		return strings.EqualFold(value, "keep-alive")
	case "Expect", "Keep-Alive", "Pragma", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return false
	default:
		return true
	}
}

func all(s string, is func(byte) bool) bool {
	for i := range len(s) {
		if !is(s[i]) {
			return false
		}
	}
	return true
}

func isDigit(c byte) bool   { return '0' <= c && c <= '9' }
func inName(c byte) bool    { return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'z' || c == '-' }
func inHost(c byte) bool    { return inName(c) || c == '.' || c == ':' }
func inPath(c byte) bool    { return inHost(c) || c == '/' || c == '_' || c == '~' }
func printable(c byte) bool { return ' ' <= c && c <= '~' || c == '\t' }

// plainBody is a body that is here already.
type plainBody struct{ bytes.Reader }

func (*plainBody) Close() error { return nil }

var _ io.ReadCloser = (*plainBody)(nil)
