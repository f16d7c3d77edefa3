package usageevent

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/weir-project/weir/pkg/domain/plainjson"
)

// Goal: a member that is there twice is found wherever a quantity could be read from it, and nothing else is refused.
func TestMembersAreThereOnce(t *testing.T) {
	many := `{"a0":0`
	for i := range 70 {
		many += `,"a` + strings.Repeat("b", i+1) + `":1`
	}
	for raw, want := range map[string]string{
		plainUsage: "",
		`{}`:       "",
		`{"prompt_tokens":1,"completion_tokens":2,"prompt_tokens":3}`:                             `"prompt_tokens" twice`,
		`{"usage":{"input_tokens":1,"input_tokens":1}}`:                                           `"input_tokens" twice`,
		`{"usage":{"cache_creation":{"a":[{"x":1,"x":2}]}}}`:                                      `"x" twice`,
		`{"stream":[{"id":"a"},{"usage":{"output_tokens":1,"output_tokens":9}}]}`:                 `"output_tokens" twice`,
		`{"prompt_tokens":1,"Prompt_Tokens":3}`:                                                   `"Prompt_Tokens" twice`,
		`{"promptTokenCount":1,"candidatesTokenCount":2,"promptTokensDetails":[{"a":1}]}`:         "",
		`{"input_tokens":1,"input_to\u006bens":3}`:                                                `"input_tokens" twice`,
		"{\"input_tokens\":1,\"input_to\u212aens\":3}":                                            "twice", // the Kelvin sign, which folds to a k
		`{"choices":[{"logprobs":{"top_logprobs":[{"The":-1,"the":-2}]}}],"completion_tokens":1}`: "",
		`{"content":[{"input":{"ID":1,"id":"é"}}],"usage":{"output_tokens":1}}`:                   "",
		`{"content":[{"input":{"ID":1,"id":"é"}}],"usage":{"output_tokens":1,"output_tokens":2}}`: `"output_tokens" twice`,
		`{"choices":[],"choices":[]}`:                                                             `"choices" twice`,
		`{"a":[1,"a","a",{"a":{}},["a"]]}`:                                                        "",
		`{"a":"a","b":"a"}`:                                                                       "",
		many + `}`:                                                                                "",
		many + `,"a0":1}`:                                                                         `"a0" twice`,
		`{"a":1}{"b":1}`:                                                                          "something after",
		`{"a":1`:                                                                                  "not valid JSON",
		`{"a":[1,}`:                                                                               "not valid JSON",
		`{"content":[1,}`:                                                                         "not valid JSON",
		`[{"a":1}]`:                                                                               "not a JSON object",
		`null`:                                                                                    "not a JSON object",
		``:                                                                                        "not a JSON object",
		`{"a":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}`: "",
	} {
		err := CheckUsage(json.RawMessage(raw))
		if want == "" {
			if err != nil {
				t.Errorf("%.80s: %v", raw, err)
			}
			continue
		}
		if e, ok := errors.AsType[*Error](err); !ok || !strings.Contains(e.Detail, want) || e.Field != "usage" || e.Reason != Malformed {
			t.Errorf("%.80s: %v, want %s", raw, err, want)
		}
	}
}

// Goal: the quick look finds fault wherever the thorough one does.
func FuzzOnce(f *testing.F) {
	for _, raw := range []string{plainUsage, `{}`, `{"a":1,"A":2}`, `{"a":{"b":1,"b":2}}`, `{"a":[{"c":1},{"c":1}]}`, `{"content":{"a":1,"a":1},"b":[]}`, `{"a":1,}`, ` { "a" : [ ] } x`, `{"a":"\""}`} {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if at := plainjson.Space(raw, 0); at < len(raw) && raw[at] == '{' {
			if end := onceObject(raw, at, 1); end > 0 && plainjson.Space(raw, end) == len(raw) {
				if err := readOnce(raw); err != nil || !json.Valid(raw) {
					t.Errorf("%q: %v", raw, err)
				}
			}
		}
		if end, plain := PlainUsage(raw); plain && (readOnce(raw[:end]) != nil || !json.Valid(raw[:end])) {
			t.Errorf("%q: %v", raw[:end], readOnce(raw[:end]))
		}
	})
}

func BenchmarkCheckUsage(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		_ = CheckUsage(json.RawMessage(plainUsage))
	}
}

func BenchmarkValid(b *testing.B) {
	for b.Loop() {
		json.Valid([]byte(plainUsage))
	}
}
