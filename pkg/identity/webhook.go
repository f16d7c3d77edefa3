package identity

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// ErrNoAccount says that a webhook is genuine but names nobody whose tenant could be looked up. HTTP 400.
var ErrNoAccount = errors.New("the webhook names no account")

// Webhook is a verified webhook of a chat platform.
type Webhook struct {
	Method Method
	// Identity is what a tenant lists among its identities: "slack:TEAM" or "telegram:BOT:USER".
	Identity string
	// User says who wrote, "slack:TEAM:USER" or "telegram:BOT:USER"; never empty.
	User string
	// Event is the platform's own id of the event, the same whenever it delivers it again; "" where it gives none.
	Event string
	// Sent is when the platform says that it signed the request; zero where it does not say.
	Sent time.Time
	// Use is a one-time value of this very request; whoever acts on the request has to use it up in the memory that all
	// processes share (budgetstore.HoldUse). "" where a repetition is allowed.
	Use string
}

// single is the only value of a header; with none or several nobody can say which of them was checked by whom.
func single(h http.Header, name string) (string, error) {
	values := h.Values(name)
	if len(values) != 1 || values[0] == "" {
		return "", fmt.Errorf("%w: %s is not there once", ErrUnauthenticated, name)
	}
	return values[0], nil
}

// object reads a JSON object's members by their exact names, each at most once: encoding/json would take the last of two
// and match them without regard to case, and another reader might take the first.
func object(raw []byte) (map[string]json.RawMessage, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, fmt.Errorf("%w: not a JSON object", ErrNoAccount)
	}
	out := map[string]json.RawMessage{}
	for dec.More() {
		t, err := dec.Token()
		name, ok := t.(string)
		if _, twice := out[name]; err != nil || !ok || twice {
			return nil, fmt.Errorf("%w: not JSON, or a member twice", ErrNoAccount)
		}
		var v json.RawMessage
		if err := dec.Decode(&v); err != nil {
			return nil, fmt.Errorf("%w: not JSON", ErrNoAccount)
		}
		out[name] = v
	}
	if _, err := dec.Token(); err != nil {
		return nil, fmt.Errorf("%w: not JSON", ErrNoAccount)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, fmt.Errorf("%w: more than one JSON object", ErrNoAccount)
	}
	return out, nil
}

// word is a string member of letters and digits, "" for anything else: ids go into names that ":" separates.
func word(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil || !isWord(s) {
		return ""
	}
	return s
}

func isWord(s string) bool {
	return s != "" && len(s) <= 64 && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
	})
}

// digits is an integer member above zero as its text, "" for anything else.
func digits(raw json.RawMessage) string {
	s := string(raw)
	if s == "" || len(s) > 20 || s[0] == '0' || strings.ContainsFunc(s, func(r rune) bool { return r < '0' || r > '9' }) {
		return ""
	}
	return s
}
