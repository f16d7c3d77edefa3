package identity

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

const slackSecret = "8f742231b10e8888abcd99yyyzzz85a5"

// slackSign is Slack's side of the signature, written out again so that a mistake of ours is not its own proof.
func slackSign(secret string, at time.Time, body string) http.Header {
	stamp := strconv.FormatInt(at.Unix(), 10)
	m := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(m, "v0:%s:%s", stamp, body)
	h := http.Header{}
	h.Set("X-Slack-Request-Timestamp", stamp)
	h.Set("X-Slack-Signature", "v0="+hex.EncodeToString(m.Sum(nil)))
	return h
}

const slackEvent = `{"type":"event_callback","team_id":"T0ACME","api_app_id":"A1","event_id":"Ev42","event":{"type":"message","user":"U7","text":"hi"}}`

func slackVerifier(t testing.TB) *SlackVerifier {
	t.Helper()
	v, err := NewSlackVerifier(slackSecret)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// Goal: only a fresh, unaltered request of Slack's. Method: one row an attack on a request that is accepted.
func TestSlackAttacks(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for _, c := range []struct {
		name  string
		h     http.Header
		body  string
		spoil func(h http.Header)
		want  error
	}{
		{"genuine", slackSign(slackSecret, now, slackEvent), slackEvent, nil, nil},
		{"almost too old", slackSign(slackSecret, now.Add(-5*time.Minute), slackEvent), slackEvent, nil, nil},
		{"its clock is ahead", slackSign(slackSecret, now.Add(5*time.Minute), slackEvent), slackEvent, nil, nil},
		{"altered body", slackSign(slackSecret, now, slackEvent), strings.Replace(slackEvent, "T0ACME", "T0BETA", 1), nil, ErrUnauthenticated},
		{"a space more", slackSign(slackSecret, now, slackEvent), slackEvent + " ", nil, ErrUnauthenticated},
		{"empty body", slackSign(slackSecret, now, slackEvent), "", nil, ErrUnauthenticated},
		{"old timestamp", slackSign(slackSecret, now.Add(-5*time.Minute-time.Second), slackEvent), slackEvent, nil, ErrUnauthenticated},
		{"future timestamp", slackSign(slackSecret, now.Add(5*time.Minute+time.Second), slackEvent), slackEvent, nil, ErrUnauthenticated},
		{"old, with a fresh timestamp put in", slackSign(slackSecret, now.Add(-time.Hour), slackEvent), slackEvent,
			func(h http.Header) { h.Set("X-Slack-Request-Timestamp", strconv.FormatInt(now.Unix(), 10)) }, ErrUnauthenticated},
		{"timestamp is no number", slackSign(slackSecret, now, slackEvent), slackEvent, func(h http.Header) { h.Set("X-Slack-Request-Timestamp", "soon") }, ErrUnauthenticated},
		{"timestamp overflows", slackSign(slackSecret, now, slackEvent), slackEvent, func(h http.Header) { h.Set("X-Slack-Request-Timestamp", "-9223372036854775808") }, ErrUnauthenticated},
		{"wrong secret", slackSign("another-signing-secret-0123456789", now, slackEvent), slackEvent, nil, ErrUnauthenticated},
		{"no signature", slackSign(slackSecret, now, slackEvent), slackEvent, func(h http.Header) { h.Del("X-Slack-Signature") }, ErrUnauthenticated},
		{"no timestamp", slackSign(slackSecret, now, slackEvent), slackEvent, func(h http.Header) { h.Del("X-Slack-Request-Timestamp") }, ErrUnauthenticated},
		{"two signatures", slackSign(slackSecret, now, slackEvent), slackEvent, func(h http.Header) { h.Add("X-Slack-Signature", "v0=00") }, ErrUnauthenticated},
		{"two timestamps", slackSign(slackSecret, now, slackEvent), slackEvent, func(h http.Header) { h.Add("X-Slack-Request-Timestamp", "1") }, ErrUnauthenticated},
		{"another version", slackSign(slackSecret, now, slackEvent), slackEvent,
			func(h http.Header) { h.Set("X-Slack-Signature", "v1"+h.Get("X-Slack-Signature")[2:]) }, ErrUnauthenticated},
		{"capitals", slackSign(slackSecret, now, slackEvent), slackEvent,
			func(h http.Header) { h.Set("X-Slack-Signature", "v0="+strings.ToUpper(h.Get("X-Slack-Signature")[3:])) }, ErrUnauthenticated},
		{"half a signature", slackSign(slackSecret, now, slackEvent), slackEvent, func(h http.Header) { h.Set("X-Slack-Signature", h.Get("X-Slack-Signature")[:20]) }, ErrUnauthenticated},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.spoil != nil {
				c.spoil(c.h)
			}
			w, err := slackVerifier(t).Verify(c.h, []byte(c.body), now)
			if !errors.Is(err, c.want) || err == nil != (c.want == nil) {
				t.Fatalf("%v, want %v", err, c.want)
			}
			if err == nil && (w.Identity != "slack:T0ACME" || w.User != "slack:T0ACME:U7" || w.Event != "slack:Ev42" || w.Method != MethodSlack) {
				t.Errorf("%+v", w)
			}
		})
	}
}

// The same request has one Use however often it comes, and no two requests share one.
func TestSlackUse(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	v := slackVerifier(t)
	use := func(sent, at time.Time, body string) string {
		t.Helper()
		w, err := v.Verify(slackSign(slackSecret, sent, body), []byte(body), at)
		if err != nil || w.Use == "" || !w.Sent.Equal(sent) {
			t.Fatalf("%+v, %v", w, err)
		}
		return w.Use
	}
	first := use(now, now, slackEvent)
	if again := use(now, now.Add(5*time.Minute), slackEvent); again != first {
		t.Errorf("again: %s, first %s", again, first)
	}
	if use(now.Add(time.Second), now, slackEvent) == first || use(now, now, slackEvent+" ") == first {
		t.Error("another request has the same use")
	}
}

// Whose request it is stands in events, commands and interactions; what names nobody, or two, is refused.
func TestSlackAccounts(t *testing.T) {
	for body, want := range map[string]string{
		`{"team_id":"T1","event":{"user":{"id":"U1"}}}`:                                   "slack:T1:unknown ",
		`{"team":{"id":"T1"},"user":{"id":"U1"}}`:                                         "slack:T1:U1 ",
		"token=x&team_id=T1&user_id=U1&command=%2Fask&text=team_id%3DT2":                  "slack:T1:U1 ",
		"payload=%7B%22team%22%3A%7B%22id%22%3A%22T1%22%7D%2C%22user_id%22%3A%22U1%22%7D": "slack:T1:U1 ",
		`{"team_id":"T1","tenant":"beta","tenant_id":"beta","X-Weir-Tenant":"beta"}`:      "slack:T1:unknown ",
		`{"team_id":"T1","event_id":"Ev:1"}`:                                              "slack:T1:unknown ",
		`{"type":"url_verification","challenge":"x"}`:                                     "no account",
		`{"team_id":"T1","team_id":"T2"}`:                                                 "no account",
		`{"team_id":"T1","team":{"id":"T2"}}`:                                             "no account",
		`{"Team_ID":"T1"}`:                                                                "no account",
		`{"team_id":"T1:x"}`:                                                              "no account",
		`{"team_id":7}`:                                                                   "no account",
		`{"team_id":"T1"} {}`:                                                             "no account",
		"team_id=T1&team_id=T2":                                                           "no account",
		"payload={}&payload={}":                                                           "no account",
		"payload=x":                                                                       "no account",
		"%zz":                                                                             "no account",
		"":                                                                                "no account",
	} {
		w, err := slackAccount([]byte(body))
		got := w.User + " " + w.Event
		if errors.Is(err, ErrNoAccount) {
			got = "no account"
		} else if err != nil {
			t.Errorf("%s: %v", body, err)
		}
		if got != want {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
}

func TestSlackSecrets(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	v, err := NewSlackVerifier("an-older-signing-secret\n\n " + slackSecret + " \n")
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"an-older-signing-secret", slackSecret} {
		if _, err := v.Verify(slackSign(secret, now, slackEvent), []byte(slackEvent), now); err != nil {
			t.Errorf("%v", err)
		}
	}
	for _, bad := range []string{"", "\n", "short", slackSecret + "\nshort"} {
		if _, err := NewSlackVerifier(bad); err == nil || strings.Contains(err.Error(), "8f74") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// FuzzSlackAccount: no body makes the reader panic, and who it finds has a name that tenants could list.
func FuzzSlackAccount(f *testing.F) {
	f.Add([]byte(slackEvent))
	f.Add([]byte("payload=%7B%7D&team_id=T1"))
	f.Fuzz(func(t *testing.T, body []byte) {
		w, err := slackAccount(body)
		if err == nil && (strings.Count(w.Identity, ":") != 1 || strings.Count(w.User, ":") != 2 || strings.ContainsAny(w.User, " \n{}")) {
			t.Errorf("%+v", w)
		}
	})
}
