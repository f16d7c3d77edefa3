package admission

import (
	"bytes"
	"strings"
	"testing"

	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/identity"
)

// Goal (I4): an event whose usage nobody can book is refused when it is sent, with the reason that its dead letter would have; what
// only the price or the books can tell is not.
func TestUsageThatCannotBeUsed(t *testing.T) {
	secret, err := identity.NewSecret(bytes.Repeat([]byte("k"), 32))
	if err != nil {
		t.Fatal(err)
	}
	s := &Service{cfg: Config{Secret: secret}}
	for data, reason := range map[string]string{
		`"provider":"openai","model":"m","usage":{"prompt_tokens":-1,"completion_tokens":2}`:                                                 "negative_meter: ",
		`"provider":"openai","model":"m","usage":{"prompt_tokens":1,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":-4}}`:     "negative_meter: ",
		`"provider":"openai","model":"m","usage":{"prompt_tokens":"many"}`:                                                                   "malformed: ",
		`"provider":"nobody","model":"m","usage":{"prompt_tokens":1}`:                                                                        "unknown_api: ",
		`"provider":"openai","api":"nothing","model":"m","usage":{"prompt_tokens":1}`:                                                        "unknown_api: ",
		`"provider":"openai","model":"m","meters":{"prompt_tokens":1}`:                                                                       "unknown_meter: ",
		`"provider":"openai","model":"m","meters":{"output_tokens":1.5}`:                                                                     "malformed: ",
		`"provider":"openai","model":"m","meters":{}`:                                                                                        "no_usage: meters has nothing in it",
		`"provider":"openai","model":"m"`:                                                                                                    "no_usage: neither usage nor meters",
		`"provider":"openai","model":"m","status":"SUCCESS","usage":{"tokens_in":4}`:                                                         "no_usage: ",
		`"provider":"openai","model":"m","reservation":{"reserved_at":"2026-01-01T00:00:00Z","outcome":"estimated"}`:                         "no_usage: ",
		`"model":"m","usage":{"prompt_tokens":1,"completion_tokens":2}`:                                                                      "no_provider: ",
		`"provider":"","model":"m","meters":{"output_tokens":1}`:                                                                             "no_provider: ",
		`"provider":" null ","model":"m","status":"FAILED"`:                                                                                  "no_provider: ",
		`"model":"m","cache_hit":"exact"`:                                                                                                    "no_provider: ",
		`"provider":"openai","usage":{"prompt_tokens":1,"completion_tokens":2}`:                                                              "no_model: ",
		`"provider":"openai","model":"  ","meters":{"output_tokens":1}`:                                                                      "no_model: ",
		`"provider":"openai","cache_hit":"exact"`:                                                                                            "no_model: ",
		`"provider":"openai","status":"FAILED"`:                                                                                              "no_model: ",
		`"provider":"openai","usage":{"model":"m","usage":{"prompt_tokens":1}}`:                                                              "",
		`"provider":" OpenAI","model":"m","usage":{"prompt_tokens":1,"completion_tokens":2}`:                                                 "",
		`"provider":"openai","model":"m","status":"FAILED"`:                                                                                  "",
		`"provider":"openai","model":"m","status":"PARTIAL","usage":{}`:                                                                      "",
		`"provider":"openai","model":"m","cache_hit":"exact"`:                                                                                "",
		`"provider":"openai","model":"has no price","usage":{"prompt_tokens":1,"completion_tokens":2}`:                                       "",
		`"provider":"no price either","model":"m","meters":{"output_tokens":1}`:                                                              "",
		`"provider":"openai","model":"m","status":"FAILED","usage":{"prompt_tokens":1,"completion_tokens":0},"reservation_id":"settled-yet"`: "",
	} {
		events, p := readOne([]byte(`{"specversion":"1.0","id":"e1","source":"a","type":"weir.usage.v1","data":{`+data+`}}`), structured)
		if p != nil {
			t.Errorf("%s: %+v", data, p)
			continue
		}
		_, p = s.accept(caller{tenant: "acme"}, events[0])
		if reason == "" && p != nil || reason != "" && (p == nil || p.Code != admit.InvalidArgument || !strings.HasPrefix(p.Detail, reason)) {
			t.Errorf("%s: %+v, want %q", data, p, reason)
		}
	}
}
