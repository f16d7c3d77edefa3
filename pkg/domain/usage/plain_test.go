package usage

import (
	"encoding/json"
	"os"
	"reflect"
	"testing"
)

const (
	plainOpenAI = `{"prompt_tokens":880,"completion_tokens":210,"total_tokens":1090,"prompt_tokens_details":{"cached_tokens":128,"audio_tokens":0},` +
		`"completion_tokens_details":{"reasoning_tokens":64,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}`
	plainAnthropic = `{"input_tokens":21,"cache_creation_input_tokens":188086,"cache_read_input_tokens":0,"cache_creation":{"ephemeral_5m_input_tokens":0,` +
		`"ephemeral_1h_input_tokens":188086},"output_tokens":393,"server_tool_use":{"web_search_requests":1},"service_tier":"standard"}`
)

func plainlyOpenAI(raw []byte, b *openAIBody) bool {
	return new(reading).plainly(raw, b.plainMember)
}

func plainlyAnthropic(raw []byte, b *anthropicBody) bool {
	return new(reading).plainly(raw, b.plainMember)
}

// Goal: the usual usage needs no second look, whatever its zeros are called.
func TestUsualUsageIsAllRead(t *testing.T) {
	var openAI, anthropic, other reading
	if !openAI.plainly([]byte(plainOpenAI), new(openAIBody).plainMember) || !openAI.allRead ||
		!anthropic.plainly([]byte(plainAnthropic), new(anthropicBody).plainMember) || !anthropic.allRead {
		t.Error("usual usage is looked at twice")
	}
	if !other.plainly([]byte(`{"prompt_tokens":1,"promt_tokens":2}`), new(openAIBody).plainMember) || other.allRead {
		t.Error("a stranger is not looked for")
	}
}

// Goal: what providers' clients usually send is read quickly.
func TestUsualUsageIsPlain(t *testing.T) {
	for _, raw := range []string{plainOpenAI, `{ "id" : "r" , "usage" : ` + plainOpenAI + `, "choices":[], "x":[true,false,null,1,"a",{"b":{}}] }`, `{}`, `{"usage":null,"id":7}`} {
		if !plainlyOpenAI([]byte(raw), &openAIBody{}) {
			t.Errorf("%s is not plain", raw)
		}
	}
	for _, raw := range []string{plainAnthropic, `{"id":"m","model":"claude","usage":` + plainAnthropic + `}`} {
		if !plainlyAnthropic([]byte(raw), &anthropicBody{}) {
			t.Errorf("%s is not plain", raw)
		}
	}
}

// Goal: a plain reading is encoding/json's, whatever the bytes.
func FuzzPlain(f *testing.F) {
	var file struct {
		Samples []struct {
			Payload json.RawMessage `json:"payload"`
		}
	}
	text, err := os.ReadFile("../testdata/usage_samples.json")
	if err != nil {
		f.Fatal(err)
	}
	if err := json.Unmarshal(text, &file); err != nil {
		f.Fatal(err)
	}
	for _, s := range file.Samples {
		f.Add([]byte(s.Payload))
	}
	for _, raw := range []string{plainOpenAI, plainAnthropic, `{"usage":` + plainAnthropic + `,"usage":{"output_tokens":1}}`, `{"usage":{},"usage":{"input_tokens":1}}`,
		`{"prompt_tokens":1,"prompt_tokens":2}`, `{"prompt_tokens":null,"prompt_tokens":2}`, `{"Prompt_Tokens":1}`, `{"prompt_tokens":01}`, `{"prompt_tokens":1.0}`,
		`{"prompt_tokens":1e2}`, `{"prompt_tokens":-1}`, `{"prompt_tokens":"1"}`, `{"prompt_tokens":1234567890123456}`, `{"prompt_tokens":1}x`, `{"prompt_tokens":1,}`,
		`{"prompt_tokens_details":null,"prompt_tokens_details":{"cached_tokens":1}}`, `{"prompt_tokens_details":{"cached_tokens":1},"prompt_tokens_details":{"audio_tokens":1}}`,
		`{"prompt_tokens_details":[]}`, `{"id":"a","id":"b"}`, `{"id":"","id":"b"}`, `{"id":{"a":[1,{}]},"model":"\u0041"}`, `{"id":nul}`, `{"id":[1,]}`, `{"a":[[[[[[[[1]]]]]]]]}`,
		`{"seconds":1.5}`, `{"stream":[]}`, `{"service_tier":"flex","speed":null}`, `{"cache_creation":{"ephemeral_5m_input_tokens":1},"cache_creation":{"ephemeral_1h_input_tokens":2}}`,
		`{"iterations":[{"input_tokens":1}]}`, `{"server_tool_use":null}`, `{"\u0069d":"x"}`, `{"x_tokens":7}`, `{"usage":{"x_tokens":7}}`, `{"x":{"y_tokens":7}}`, `{"usage":{"service_tier":{"x_tokens":7}}}`, `{"cache_creation":{"x_tokens":[{"token":1}]}}`, `null`, `[]`, ``, ` { } `} {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var once reading
		if once.plainly(raw, new(openAIBody).plainMember) && once.allRead && strangers(raw, openAINames()) {
			t.Errorf("%q: a stranger is not seen", raw)
		}
		if once.plainly(raw, new(anthropicBody).plainMember) && once.allRead && strangers(raw, anthropicNames()) {
			t.Errorf("%q: a stranger is not seen by Anthropic's names", raw)
		}
		var openAI, openAIToo openAIBody
		if plainlyOpenAI(raw, &openAI) {
			if err := json.Unmarshal(raw, &openAIToo); err != nil || !reflect.DeepEqual(openAI, openAIToo) {
				t.Errorf("%q: %+v, not %+v, %v", raw, openAI, openAIToo, err)
			}
		}
		var anthropic, anthropicToo anthropicBody
		if plainlyAnthropic(raw, &anthropic) {
			if err := json.Unmarshal(raw, &anthropicToo); err != nil || !reflect.DeepEqual(anthropic, anthropicToo) {
				t.Errorf("%q: %+v, not %+v, %v", raw, anthropic, anthropicToo, err)
			}
		}
	})
}
