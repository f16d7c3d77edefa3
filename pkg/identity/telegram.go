package identity

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// telegramHeader carries the secret_token that setWebhook was given.
const telegramHeader = "X-Telegram-Bot-Api-Secret-Token"

const minTelegramSecret = 16

// TelegramVerifier verifies raw Telegram updates. An update does not say for which bot it is: the secret does.
type TelegramVerifier struct {
	bots    []string
	secrets [][sha256.Size]byte // hashed, so that comparisons take the same time whatever the lengths
}

// NewTelegramVerifier takes lines of BOT_ID:SECRET. A bot may have two secrets while they are changed; no two bots share
// one.
func NewTelegramVerifier(lines string) (*TelegramVerifier, error) {
	v := &TelegramVerifier{}
	for line := range strings.Lines(lines) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		bot, secret, _ := strings.Cut(line, ":")
		if digits(json.RawMessage(bot)) == "" || len(secret) < minTelegramSecret {
			return nil, fmt.Errorf("identity: a Telegram line is BOT_ID:SECRET with at least %d characters of secret", minTelegramSecret)
		}
		sum := sha256.Sum256([]byte(secret))
		for i, other := range v.secrets {
			if other == sum && v.bots[i] != bot {
				return nil, fmt.Errorf("identity: Telegram bots %s and %s have the same secret", v.bots[i], bot)
			}
		}
		v.bots, v.secrets = append(v.bots, bot), append(v.secrets, sum)
	}
	if len(v.bots) == 0 || len(v.bots) > maxSecrets {
		return nil, fmt.Errorf("identity: 1 to %d Telegram lines of BOT_ID:SECRET", maxSecrets)
	}
	return v, nil
}

// TelegramBot is the id of a bot whose secret token a request has brought.
type TelegramBot string

// VerifyHeader finds out for which bot an update is, by the secret token, which is all of the credential: Telegram signs
// nothing.
func (v *TelegramVerifier) VerifyHeader(h http.Header) (TelegramBot, error) {
	token, err := single(h, telegramHeader)
	if err != nil {
		return "", err
	}
	sum, bot := sha256.Sum256([]byte(token)), ""
	for i := range v.secrets {
		if subtle.ConstantTimeCompare(sum[:], v.secrets[i][:]) == 1 {
			bot = v.bots[i]
		}
	}
	if bot == "" {
		return "", fmt.Errorf("%w: Telegram's secret token does not match", ErrUnauthenticated)
	}
	return TelegramBot(bot), nil
}

// telegramSenders maps each kind of update that has a sender to the member that holds it.
func telegramSenders() map[string]string {
	return map[string]string{
		"message": "from", "edited_message": "from", "business_message": "from", "edited_business_message": "from",
		"callback_query": "from", "inline_query": "from", "chosen_inline_result": "from", "shipping_query": "from",
		"pre_checkout_query": "from", "purchased_paid_media": "from", "chat_join_request": "from", "my_chat_member": "from",
		"chat_member": "from", "poll_answer": "user", "message_reaction": "user",
	}
}

// Account finds who sent the update. A repetition cannot be told from a second delivery: Event is the same for both.
func (b TelegramBot) Account(body []byte) (Webhook, error) {
	m, err := object(body)
	if err != nil {
		return Webhook{}, err
	}
	update, user, kinds := digits(m["update_id"]), "", 0
	for kind, member := range telegramSenders() {
		raw, there := m[kind]
		if !there {
			continue
		}
		kinds++
		if inner, err := object(raw); err == nil {
			if from, err := object(inner[member]); err == nil {
				user = digits(from["id"])
			}
		}
	}
	if kinds != 1 || user == "" || update == "" {
		return Webhook{}, fmt.Errorf("%w: an update has an update_id and one sender", ErrNoAccount)
	}
	bot := "telegram:" + string(b) + ":"
	return Webhook{Method: MethodTelegram, Identity: bot + user, User: bot + user, Event: bot + update}, nil
}
