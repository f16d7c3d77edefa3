//go:build integration

package admission

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/domain/tenant"
)

// slowly sends a request whose body does not come, and reads the answer.
func (r *replica) slowly(method, path string, length int, headers ...string) (int, object) {
	r.w.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	r.w.must(err)
	defer conn.Close()
	r.w.must(conn.SetDeadline(time.Now().Add(20 * time.Second))) // before the server would give the body up
	request := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: weir\r\nContent-Length: %d\r\n", method, path, length)
	for i := 0; i+1 < len(headers); i += 2 {
		request += headers[i] + ": " + headers[i+1] + "\r\n"
	}
	_, err = io.WriteString(conn, request+"\r\n{")
	r.w.must(err)
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, object{"error": err.Error()}
	}
	out := object{}
	r.w.must(json.NewDecoder(answer.Body).Decode(&out))
	return answer.StatusCode, out
}

// Goal: nobody has to send a body to be told what it cannot change: that the credential is missing or not valid, that the
// body is too long, that there is no such call. A credential comes before a length. Method: the body never comes.
func TestSlowSenderIsToldAtOnce(t *testing.T) {
	w := newWorld(t, map[string]tenant.Contract{"acme": contract()})
	r, without := w.start(bots(t)), w.start()
	bearer := func(key string) []string { return []string{"Authorization", "Bearer " + key} }
	good, stamp := bearer(w.keys["acme"]), fmt.Sprint(time.Now().Unix())
	signed := []string{"X-Slack-Request-Timestamp", stamp, "X-Slack-Signature", "v0=" + strings.Repeat("0", 64)}
	secret := []string{"X-Telegram-Bot-Api-Secret-Token", testTelegramSecret}
	for _, c := range []struct {
		name, method, path string
		r                  *replica
		length             int
		headers            []string
		status             int
		code               string
	}{
		{"no credential", "POST", "/v1/reservations", r, 100, nil, 401, "unauthenticated"},
		{"an unknown key", "POST", "/v1/reservations/r1/settle", r, 100, bearer("wk_1_x"), 401, "unauthenticated"},
		{"no credential, too long", "POST", "/v1/reservations", r, 99 << 20, nil, 401, "unauthenticated"},
		{"two tenants named", "POST", "/v1/executions", r, 100, append([]string{"X-Weir-Tenant", "a", "X-Weir-Tenant", "b"}, good...), 400, "invalid_argument"},
		{"another's tenant", "POST", "/v1/executions", r, 100, append([]string{"X-Weir-Tenant", "beta"}, good...), 403, "forbidden_tenant"},
		{"too long", "POST", "/v1/reservations", r, maxBody + 1, good, 413, "body_too_large"},
		{"too long, to be left out", "POST", "/v1/reservations/r1/release", r, maxBody + 1, good, 413, "body_too_large"},
		{"too long a batch", "POST", "/v1/reservations:batch", r, maxBody + 1, good, 413, "body_too_large"},
		{"too long events", "POST", "/v1/events", r, maxEventsBody + 1, good, 413, "body_too_large"},
		{"too long an update", "POST", "/v1/executions:from-telegram", r, maxBody + 1, secret, 413, "body_too_large"},
		{"too long for Slack", "POST", "/v1/executions:from-slack", r, maxBody + 1, signed, 413, "body_too_large"},
		{"no signature", "POST", "/v1/executions:from-slack", r, 100, nil, 401, "unauthenticated"},
		{"an old signature", "POST", "/v1/executions:from-slack", r, 100, append([]string{"X-Slack-Request-Timestamp", "1"}, signed[2:]...), 401, "unauthenticated"},
		{"no secret token", "POST", "/v1/executions:from-telegram", r, 100, nil, 401, "unauthenticated"},
		{"another secret token", "POST", "/v1/executions:from-telegram", r, 100, []string{secret[0], "another-secret-of-the-tests"}, 401, "unauthenticated"},
		{"no Slack here", "POST", "/v1/executions:from-slack", without, 100, signed, 404, "not_found"},
		{"no such path", "POST", "/v1/nothing", r, 100, good, 404, "not_found"},
		{"no such method", "PUT", "/v1/reservations", r, 100, good, 405, "method_not_allowed"},
		{"a call without a body", "GET", "/v1/reservations/r1", r, 100, good, 404, "reservation_not_found"},
	} {
		status, out := c.r.slowly(c.method, c.path, c.length, c.headers...)
		if status != c.status || out["code"] != c.code {
			t.Errorf("%s: %d %v; want %d %s", c.name, status, out, c.status, c.code)
		}
	}
}
