package obs

import (
	"net/http"
	"strconv"
	"strings"
)

// answer is what a handler answers to a plain request. It is collected until the handler has returned, as long as the handler
// makes it, and sent as net/http would send it, with its length.
type answer struct {
	header http.Header
	status int // 0 = not said yet
	body   []byte
}

// keepBytes bounds what a connection keeps of its last answer for the next, in bytes.
const keepBytes = 16 << 10

// reset makes room for the next answer.
func (a *answer) reset() {
	if a.header == nil {
		a.header = http.Header{}
	}
	clear(a.header)
	a.status, a.body = 0, kept(a.body)
}

func kept(b []byte) []byte {
	if cap(b) > keepBytes {
		return nil
	}
	return b[:0]
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(status int) {
	if a.status == 0 && status >= http.StatusOK { // what comes before an answer (1xx) is no use to a plain request
		a.status = status
	}
}

func (a *answer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	if !a.mayHaveBody() {
		return 0, http.ErrBodyNotAllowed
	}
	a.body = append(a.body, b...)
	return len(b), nil
}

func (a *answer) mayHaveBody() bool {
	return a.status != http.StatusNoContent && a.status != http.StatusNotModified
}

// ends reports whether the handler wants this to be the connection's last answer.
func (a *answer) ends() bool { return strings.EqualFold(a.header.Get("Connection"), "close") }

// appendTo appends the answer as it is sent. The order of headers says nothing.
func (a *answer) appendTo(b []byte, date string) []byte {
	a.WriteHeader(http.StatusOK)
	b = strconv.AppendInt(append(b, "HTTP/1.1 "...), int64(a.status), 10)
	b = append(append(append(b, ' '), http.StatusText(a.status)...), "\r\n"...)
	for name, values := range a.header {
		if name == "Content-Length" || name == "Date" {
			continue
		}
		for _, value := range values {
			b = appendHeader(b, name, value)
		}
	}
	if len(a.body) > 0 && len(a.header["Content-Type"]) == 0 {
		b = appendHeader(b, "Content-Type", http.DetectContentType(a.body))
	}
	b = appendHeader(b, "Date", date)
	if a.mayHaveBody() {
		b = append(strconv.AppendInt(append(b, "Content-Length: "...), int64(len(a.body)), 10), "\r\n"...)
	}
	return append(append(b, "\r\n"...), a.body...)
}

func appendHeader(b []byte, name, value string) []byte {
	if strings.ContainsAny(value, "\r\n") { // no text may become a header
		value = strings.NewReplacer("\r", " ", "\n", " ").Replace(value)
	}
	return append(append(append(append(b, name...), ": "...), value...), "\r\n"...)
}
