package identity

import (
	"errors"
	"net/http"
	"strings"
	"testing"
)

const telegramLines = "111:secret-of-the-first-bot\n222:secret-of-the-second_bot\n222:its-new-secret-while-changing\n"

const telegramUpdate = `{"update_id":9001,"message":{"message_id":1,"from":{"id":42,"is_bot":false},"chat":{"id":42},"text":"hi"}}`

// Goal: only who knows a bot's secret speaks for it, and only for the user that the update is from.
func TestTelegramAttacks(t *testing.T) {
	v, err := NewTelegramVerifier(telegramLines)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		tokens []string
		body   string
		want   string
		err    error
	}{
		{"genuine", []string{"secret-of-the-first-bot"}, telegramUpdate, "telegram:111:42 telegram:111:9001", nil},
		{"another bot's", []string{"secret-of-the-second_bot"}, telegramUpdate, "telegram:222:42 telegram:222:9001", nil},
		{"the new secret", []string{"its-new-secret-while-changing"}, telegramUpdate, "telegram:222:42 telegram:222:9001", nil},
		{"a button", []string{"secret-of-the-first-bot"}, `{"update_id":1,"callback_query":{"from":{"id":7},"message":{"from":{"id":8}}}}`, "telegram:111:7 telegram:111:1", nil},
		{"a tenant in the body", []string{"secret-of-the-first-bot"}, `{"update_id":1,"tenant":"beta","bot_id":222,"message":{"from":{"id":7},"via_bot":{"id":222}}}`, "telegram:111:7 telegram:111:1", nil},
		{"no token", nil, telegramUpdate, "", ErrUnauthenticated}, {"empty token", []string{""}, telegramUpdate, "", ErrUnauthenticated},
		{"wrong token", []string{"secret-of-the-third-bot"}, telegramUpdate, "", ErrUnauthenticated},
		{"half a token", []string{"secret-of-the-first"}, telegramUpdate, "", ErrUnauthenticated},
		{"the whole line", []string{"111:secret-of-the-first-bot"}, telegramUpdate, "", ErrUnauthenticated},
		{"two tokens", []string{"secret-of-the-first-bot", "x"}, telegramUpdate, "", ErrUnauthenticated},
		{"no sender", []string{"secret-of-the-first-bot"}, `{"update_id":1,"channel_post":{"sender_chat":{"id":7}}}`, "", ErrNoAccount},
		{"two senders", []string{"secret-of-the-first-bot"}, `{"update_id":1,"message":{"from":{"id":7}},"callback_query":{"from":{"id":8}}}`, "", ErrNoAccount},
		{"a sender twice", []string{"secret-of-the-first-bot"}, `{"update_id":1,"message":{"from":{"id":7},"from":{"id":8}}}`, "", ErrNoAccount},
		{"a sender's id as text", []string{"secret-of-the-first-bot"}, `{"update_id":1,"message":{"from":{"id":"7"}}}`, "", ErrNoAccount},
		{"a sender below zero", []string{"secret-of-the-first-bot"}, `{"update_id":1,"message":{"from":{"id":-7}}}`, "", ErrNoAccount},
		{"a sender's id as a fraction", []string{"secret-of-the-first-bot"}, `{"update_id":1,"message":{"from":{"id":7.0}}}`, "", ErrNoAccount},
		{"no update_id", []string{"secret-of-the-first-bot"}, `{"message":{"from":{"id":7}}}`, "", ErrNoAccount},
		{"not JSON", []string{"secret-of-the-first-bot"}, `from=7`, "", ErrNoAccount}, {"empty", []string{"secret-of-the-first-bot"}, "", "", ErrNoAccount},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := http.Header{}
			for _, token := range c.tokens {
				h.Add("X-Telegram-Bot-Api-Secret-Token", token)
			}
			var w Webhook
			bot, err := v.VerifyHeader(h)
			if err == nil {
				w, err = bot.Account([]byte(c.body))
			}
			if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
				t.Fatalf("%v, want %v", err, c.err)
			}
			if err == nil && (w.Identity+" "+w.Event != c.want || w.User != w.Identity || w.Use != "") {
				t.Errorf("%+v, want %s", w, c.want)
			}
			if err != nil && strings.Contains(err.Error(), "secret-of") {
				t.Errorf("a secret is told: %v", err)
			}
		})
	}
}

func TestTelegramSecrets(t *testing.T) {
	for _, bad := range []string{"", "111", "111:short", "bot:secret-of-the-first-bot", ":secret-of-the-first-bot", "111:same-secret-as-other\n222:same-secret-as-other"} {
		if _, err := NewTelegramVerifier(bad); err == nil || strings.Contains(err.Error(), "secret-of") || strings.Contains(err.Error(), "same-secret") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// FuzzTelegramAccount: no body makes the reader panic, and who it finds has a name that tenants could list.
func FuzzTelegramAccount(f *testing.F) {
	f.Add([]byte(telegramUpdate))
	f.Add([]byte(`{"update_id":1,"poll_answer":{"user":{"id":3}}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		w, err := TelegramBot("1").Account(body)
		if err == nil && strings.ContainsFunc(strings.TrimPrefix(w.Identity, "telegram:"), func(r rune) bool { return r != ':' && (r < '0' || r > '9') }) {
			t.Errorf("%+v", w)
		}
	})
}
