package identity

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// The headers and the rule are those of Slack's request signing, version v0.
const (
	slackSignature = "X-Slack-Signature"
	slackTimestamp = "X-Slack-Request-Timestamp"
	slackVersion   = "v0"
	slackWindow    = 5 * time.Minute // either way: clocks differ in both directions

	minSlackSecret = 16
	maxSecrets     = 100
)

// SlackMemory is how long the use of a signature has to be remembered: as long as its timestamp could be inside the window, and some.
const SlackMemory = 2*slackWindow + time.Minute

// SlackVerifier verifies raw Slack requests: events, commands and interactions.
type SlackVerifier struct {
	secrets [][]byte
}

// NewSlackVerifier takes signing secrets, one a line: one for each app, or the old and the new one while it is changed.
func NewSlackVerifier(secrets string) (*SlackVerifier, error) {
	v := &SlackVerifier{}
	for line := range strings.Lines(secrets) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		if len(line) < minSlackSecret {
			return nil, fmt.Errorf("identity: a Slack signing secret has at least %d characters", minSlackSecret)
		}
		v.secrets = append(v.secrets, []byte(line))
	}
	if len(v.secrets) == 0 || len(v.secrets) > maxSecrets {
		return nil, fmt.Errorf("identity: 1 to %d Slack signing secrets, one a line", maxSecrets)
	}
	return v, nil
}

// slackSigned is what the header of a request says of its signature.
type slackSigned struct {
	signature, stamp string
	sent             int64 // the stamp: Unix seconds
}

// slackHeader reads the header, whose stamp must be of now.
func slackHeader(h http.Header, now time.Time) (slackSigned, error) {
	signature, sigErr := single(h, slackSignature)
	stamp, stampErr := single(h, slackTimestamp)
	if err := errors.Join(sigErr, stampErr); err != nil {
		return slackSigned{}, err
	}
	sent, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return slackSigned{}, fmt.Errorf("%w: Slack's timestamp is no number", ErrUnauthenticated)
	}
	if off := now.Unix() - sent; off > int64(slackWindow/time.Second) || off < -int64(slackWindow/time.Second) {
		return slackSigned{}, fmt.Errorf("%w: Slack's timestamp is more than %s away", ErrUnauthenticated, slackWindow)
	}
	return slackSigned{signature, stamp, sent}, nil
}

// VerifyHeader tells what no body could make good: a signature or a time that is missing, or a time that is not of now.
func (v *SlackVerifier) VerifyHeader(h http.Header, now time.Time) error {
	_, err := slackHeader(h, now)
	return err
}

// Verify checks a request by its raw body, exactly as it arrived. It remembers nothing: the same request again is as
// genuine, and has the same Use.
func (v *SlackVerifier) Verify(h http.Header, body []byte, now time.Time) (Webhook, error) {
	said, err := slackHeader(h, now)
	if err != nil {
		return Webhook{}, err
	}
	if !v.signed(said.signature, said.stamp, body) {
		return Webhook{}, fmt.Errorf("%w: Slack's signature does not match", ErrUnauthenticated)
	}
	w, err := slackAccount(body)
	if err != nil {
		return Webhook{}, err
	}
	sum := sha256.Sum256([]byte(said.signature))
	w.Sent = time.Unix(said.sent, 0).UTC()
	w.Use = "slack:" + hex.EncodeToString(sum[:])
	return w, nil
}

// signed compares with every secret, whichever matches, and only in the one spelling that Slack uses: a signature that
// could be spelled twice could be used twice.
func (v *SlackVerifier) signed(signature, stamp string, body []byte) bool {
	match := false
	for _, secret := range v.secrets {
		m := hmac.New(sha256.New, secret)
		m.Write([]byte(slackVersion + ":" + stamp + ":"))
		m.Write(body)
		want := slackVersion + "=" + hex.EncodeToString(m.Sum(nil))
		match = hmac.Equal([]byte(signature), []byte(want)) || match
	}
	return match
}

// slackAccount finds team and user in a JSON event, a form (command) or a form with a JSON payload (interaction). Which
// of them it is says the body itself: the content type is not signed.
func slackAccount(body []byte) (Webhook, error) {
	raw, team, user := body, "", ""
	if len(body) == 0 || body[0] != '{' {
		form, err := url.ParseQuery(string(body))
		if err != nil || len(form["team_id"]) > 1 || len(form["user_id"]) > 1 || len(form["payload"]) > 1 {
			return Webhook{}, fmt.Errorf("%w: neither JSON nor a form", ErrNoAccount)
		}
		if raw = []byte(form.Get("payload")); len(raw) == 0 {
			team, user = form.Get("team_id"), form.Get("user_id")
			return slackWebhook(team, user, "")
		}
	}
	m, err := object(raw)
	if err != nil {
		return Webhook{}, err
	}
	team, user = word(m["team_id"]), word(m["user_id"])
	if inner := inside(m["team"], "id"); team == "" {
		team = inner
	} else if inner != "" && inner != team {
		return Webhook{}, fmt.Errorf("%w: two teams", ErrNoAccount)
	}
	for _, other := range []string{inside(m["user"], "id"), inside(m["event"], "user")} {
		if user == "" {
			user = other
		}
	}
	return slackWebhook(team, user, word(m["event_id"]))
}

// inside is a word one level down, "" where there is none.
func inside(raw json.RawMessage, name string) string {
	m, err := object(raw)
	if err != nil {
		return ""
	}
	return word(m[name])
}

func slackWebhook(team, user, event string) (Webhook, error) {
	if !isWord(team) {
		return Webhook{}, fmt.Errorf("%w: no team_id", ErrNoAccount)
	}
	if !isWord(user) {
		user = "unknown"
	}
	w := Webhook{Method: MethodSlack, Identity: "slack:" + team, User: "slack:" + team + ":" + user}
	if event != "" {
		w.Event = "slack:" + event
	}
	return w, nil
}
