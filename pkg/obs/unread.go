package obs

import (
	"io"
	"net/http"
	"time"
)

// bodyGrace is how long after the answer the rest of a request is still read: closing a connection on what is under way would
// take the answer from a client that has not read it yet.
const bodyGrace = 500 * time.Millisecond

// AnswerFirst is for an answer to a request whose body nobody has read, before it is written. net/http would wait for the
// body to have come, up to ReadTimeout, since it means to use the connection again. So that a slow sender is told at once,
// the connection is used again only where the body has come with the header; else the answer says that it ends.
func AnswerFirst(w http.ResponseWriter, r *http.Request, now time.Time) {
	if r.ContentLength == 0 || r.ProtoMajor != 1 { // HTTP/2 does not wait
		return
	}
	c := http.NewResponseController(w)
	asking := r.Header.Get("Expect") != ""                                           // whether to send the body; reading it would be a yes
	if r.ContentLength > 0 && !asking && c.SetReadDeadline(time.Unix(1, 0)) == nil { // what has come is read, and nothing is waited for
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			return
		}
	}
	w.Header().Set("Connection", "close")
	_ = c.SetReadDeadline(now.Add(bodyGrace)) // a writer without one is no connection's
}
