package admission

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Goal: every answer ends its line and says how long it is, also one that is longer than what net/http gathers before it sends.
func TestAnswersHaveTheirLength(t *testing.T) {
	s := &Service{}
	for i, n := range []int{1, 1, 2, 2, maxUnchunked, maxUnchunked + 1, 10 * maxUnchunked} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			// Every other one ends its line itself, as what a row keeps of a settle does.
			s.writeAnswer(w, answer{status: http.StatusCreated, body: []byte(strings.Repeat("x", n-1) + strings.Repeat("\n", i%2))})
		}))
		got, err := http.Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(got.Body)
		if err != nil || len(body) != n || body[n-1] != '\n' || got.ContentLength != int64(n) || len(got.TransferEncoding) > 0 || got.StatusCode != http.StatusCreated {
			t.Errorf("%d bytes: status %d, %d bytes, length %d, %v, %v", n, got.StatusCode, len(body), got.ContentLength, got.TransferEncoding, err)
		}
		_ = got.Body.Close()
		server.Close()
	}
}
