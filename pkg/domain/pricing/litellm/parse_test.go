package litellm_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/weir-project/weir/pkg/domain/pricing"
	"github.com/weir-project/weir/pkg/domain/pricing/litellm"
)

func sampleFile(t testing.TB) []byte {
	t.Helper()
	raw, err := os.ReadFile("../../testdata/prices_sample.json")
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func parse(t testing.TB, raw string) ([]pricing.Version, []litellm.Oddity) {
	t.Helper()
	rows, odd, err := litellm.Parse([]byte(raw), "test")
	if err != nil {
		t.Fatal(err)
	}
	return rows, odd
}

// rates lists "meter[ above N][ tier] = price" for readable comparisons.
func rates(v pricing.Version) []string {
	var out []string
	for _, r := range v.Rates {
		s := string(r.Meter)
		if r.AboveTokens > 0 {
			s += fmt.Sprintf(" above %d", r.AboveTokens)
		}
		if r.ServiceTier != "" {
			s += " " + r.ServiceTier
		}
		out = append(out, s+" = "+r.USDPerUnit.String())
	}
	slices.Sort(out)
	return out
}

func TestSampleFile(t *testing.T) {
	raw := sampleFile(t)
	rows, odd, err := litellm.Parse(raw, "sample")
	if err != nil || len(rows) != 66 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	for _, r := range rows {
		if len(r.RawRow) == 0 || r.Source != "sample" || len(r.SourceHash) != 64 || r.ID != "" || r.Currency != "USD" {
			t.Errorf("%+v", r)
		}
	}
	// The known traps, each with where it must be reported.
	for _, want := range []litellm.Oddity{
		{Row: "sample_spec", Kind: litellm.Skipped},
		{Row: "claude-3-haiku-20240307", Field: "cache_creation_input_token_cost_above_1hr", Kind: litellm.Implausible},
		{Row: "gpt-5-nano", Kind: litellm.Implausible},
		{Row: "gpt-5-nano", Kind: litellm.TierMissing},
		{Row: "gpt-5.4", Kind: litellm.TierRatio},
		{Row: "gemini/gemini-2.5-pro", Kind: litellm.TierEqual},
		{Row: "gemini/gemini-2.5-flash", Field: "cache_read_input_audio_token_cost", Kind: litellm.RateMissing},
		{Row: "mistral/mistral-large-latest", Field: "cache_read_input_token_cost", Kind: litellm.RateMissing},
		{Row: "mistral/mistral-large-latest", Field: "input_cost_per_token_batches", Kind: litellm.RateMissing},
		{Row: "azure/gpt-4o", Field: "input_cost_per_token_batches", Kind: litellm.RateMissing},
		{Row: "gpt-realtime", Field: "cache_creation_input_audio_token_cost", Kind: litellm.Misnamed},
		{Row: "gpt-realtime", Field: "input_images", Kind: litellm.Implausible},
		{Row: "whisper-1", Field: "output_cost_per_second", Kind: litellm.Duplicate},
		{Row: "deepgram/nova-3", Field: "output_cost_per_second", Kind: litellm.Placeholder},
		{Row: "512-x-512/dall-e-2", Field: "output_cost_per_pixel", Kind: litellm.Placeholder},
		{Row: "deepseek/deepseek-chat", Field: "input_cost_per_token_cache_hit", Kind: litellm.Duplicate},
		{Row: "databricks/databricks-claude-sonnet-4-5", Field: "input_cost_per_token", Kind: litellm.FloatNoise},
		{Row: "databricks/databricks-claude-sonnet-4-5", Field: "input_dbu_cost_per_token", Kind: litellm.NotUSD},
		{Row: "exa_ai/search", Field: "tiered_pricing", Kind: litellm.Approximated},
		{Row: "ollama/llama3", Kind: litellm.Free},
	} {
		if !slices.ContainsFunc(odd, func(o litellm.Oddity) bool {
			return o.Row == want.Row && o.Field == want.Field && o.Kind == want.Kind && o.Reason != ""
		}) {
			t.Errorf("not reported: %+v", want)
		}
	}
}

// No field is dropped in silence: taking any one away changes the version or
// the report.
func TestEveryFieldCounts(t *testing.T) {
	var file map[string]map[string]json.RawMessage
	if err := json.Unmarshal(sampleFile(t), &file); err != nil {
		t.Fatal(err)
	}
	fields := 0
	for key, row := range file {
		if key == "sample_spec" {
			continue
		}
		before := outcome(t, key, row)
		for name := range row {
			fields++
			less := maps.Clone(row)
			delete(less, name)
			if outcome(t, key, less) == before {
				t.Errorf("%s: field %s has no effect and no report", key, name)
			}
		}
	}
	if fields < 500 {
		t.Errorf("only %d fields seen", fields)
	}
}

func outcome(t *testing.T, key string, row map[string]json.RawMessage) string {
	text, err := json.Marshal(map[string]any{key: row})
	if err != nil {
		t.Fatal(err)
	}
	rows, odd := parse(t, string(text))
	for i := range rows {
		rows[i].RawRow, rows[i].SourceHash = nil, ""
	}
	return fmt.Sprintf("%v %v", rows, odd)
}

func TestRows(t *testing.T) {
	for name, c := range map[string]struct {
		fields string
		want   []string
	}{
		"suffixes": {`"input_cost_per_token":1,"input_cost_per_token_above_200k_tokens":2,"input_cost_per_token_above_200k_tokens_priority":3,"input_cost_per_token_flex":4,"output_cost_per_token_batches":5,"input_cost_per_token_ultrafast":6`,
			[]string{"input_tokens = 1", "input_tokens above 200000 = 2", "input_tokens above 200000 priority = 3", "input_tokens flex = 4", "input_tokens ultrafast = 6", "output_tokens batch = 5"}},
		"time to live is no threshold": {`"cache_creation_input_token_cost_above_1hr":1,"cache_creation_input_token_cost_above_1hr_above_200k_tokens":2,"cache_creation_input_token_cost_above_200k_tokens":3,"cache_creation_input_token_cost":4`,
			[]string{"input_cache_write_1h_tokens = 1", "input_cache_write_1h_tokens above 200000 = 2", "input_cache_write_tokens = 4", "input_cache_write_tokens above 200000 = 3"}},
		"strings":            {`"input_cost_per_token":"3e-7"`, []string{"input_tokens = 0.0000003"}},
		"per thousand":       {`"file_search_cost_per_1k_calls":2.5`, []string{"file_search_calls = 0.0025"}},
		"images made":        {`"mode":"image_generation","input_cost_per_image":0.167`, []string{"output_images = 0.167"}},
		"images read":        {`"mode":"chat","input_cost_per_image":0.167`, []string{"input_images = 0.167"}},
		"old cache spelling": {`"input_cost_per_token_cache_hit":2`, []string{"input_cache_read_tokens = 2"}},
		"two cache prices":   {`"input_cost_per_token_cache_hit":2,"cache_read_input_token_cost":1`, []string{"input_cache_read_tokens = 2"}},
		"video seconds":      {`"mode":"video_generation","output_cost_per_second":1,"output_cost_per_second_1080p":2`, []string{"output_video_seconds = 1", "output_video_seconds_1080p = 2"}},
		"machine seconds":    {`"mode":"chat","input_cost_per_second":1,"output_cost_per_second":1`, []string{"input_compute_seconds = 1", "output_compute_seconds = 1"}},
		"cached audio":       {`"cache_creation_input_audio_token_cost":1,"input_cost_per_audio_token":2`, []string{"input_audio_cache_read_tokens = 1", "input_audio_tokens = 2"}},
		"written audio":      {`"cache_creation_input_audio_token_cost":3,"input_cost_per_audio_token":2`, []string{"input_audio_cache_write_tokens = 3", "input_audio_tokens = 2"}},
		"search sizes":       {`"search_context_cost_per_query":{"search_context_size_low":1,"search_context_size_high":3}`, []string{"web_search_requests = 3", "web_search_requests_high = 3", "web_search_requests_low = 1"}},
		"tiers":              {`"tiered_pricing":[{"range":[0,256000.0],"input_cost_per_token":1},{"range":[256000.0,1e6],"input_cost_per_token":2}]`, []string{"input_tokens = 1", "input_tokens above 256000 = 2"}},
		"tiers by results":   {`"tiered_pricing":[{"max_results_range":[0,25],"input_cost_per_query":1},{"max_results_range":[26,100],"input_cost_per_query":5}]`, []string{"search_units = 5"}},
	} {
		rows, odd := parse(t, `{"m":{"litellm_provider":"p",`+c.fields+`}}`)
		if len(rows) != 1 || !slices.Equal(rates(rows[0]), c.want) {
			t.Errorf("%s: %v, %v", name, rows, odd)
		}
	}
}

func TestOddRows(t *testing.T) {
	for name, c := range map[string]struct{ file, field, kind string }{
		"last_updated":    {`{"last_updated":"2026-07-24"}`, "", litellm.Skipped},
		"generalizations": {`{"fallback_generalizations":{"a":1}}`, "", litellm.Skipped},
		"no provider":     {`{"m":{"input_cost_per_token":1}}`, "", litellm.Skipped},
		"no price":        {`{"m":{"litellm_provider":"p","mode":"chat"}}`, "", litellm.Skipped},
		"second row":      {`{"m":{"litellm_provider":"p","input_cost_per_token":1},"m":{"litellm_provider":"p","input_cost_per_token":2}}`, "", litellm.Skipped},
		"second field":    {`{"m":{"litellm_provider":"p","input_cost_per_token":1,"input_cost_per_token":2}}`, "input_cost_per_token", litellm.BadValue},
		"unknown field":   {`{"m":{"litellm_provider":"p","input_cost_per_token":1,"cost_per_dream":2}}`, "cost_per_dream", litellm.Unmapped},
		"off peak":        {`{"m":{"litellm_provider":"p","input_cost_per_token":1,"off_peak_pricing":{"hours_utc":"16:30-00:30"}}}`, "off_peak_pricing", litellm.Unmapped},
		"odd entry":       {`{"m":{"litellm_provider":"p","input_cost_per_token":1,"provider_specific_entry":{"bedrock_invocation_schema":"x"}}}`, "provider_specific_entry.bedrock_invocation_schema", litellm.Unmapped},
		"negative":        {`{"m":{"litellm_provider":"p","input_cost_per_token":-1}}`, "input_cost_per_token", litellm.BadValue},
		"null":            {`{"m":{"litellm_provider":"p","input_cost_per_token":null}}`, "input_cost_per_token", litellm.BadValue},
		"per million":     {`{"m":{"litellm_provider":"p","input_cost_per_token":2.5}}`, "input_tokens", litellm.Implausible},
		"two prices":      {`{"m":{"litellm_provider":"p","mode":"audio_transcription","input_cost_per_second":1,"output_cost_per_second":2}}`, "output_cost_per_second", litellm.Conflict},
	} {
		_, odd := parse(t, c.file)
		if !slices.ContainsFunc(odd, func(o litellm.Oddity) bool { return o.Field == c.field && o.Kind == c.kind }) {
			t.Errorf("%s: %+v", name, odd)
		}
	}
	rows, odd := parse(t, `{"m":{"litellm_provider":"p","input_cost_per_token":1e-6,"supports_vision":true,"source":"x","max_tokens":5,"deprecation_date":"2027-01-01"}}`)
	if len(rows) != 1 || len(odd) != 0 {
		t.Errorf("descriptions are not odd: %+v", odd)
	}
}

func TestNotAFile(t *testing.T) {
	for _, raw := range []string{"", "[]", "{", `{"a":1`, `{} {}`, `{}}`, `"x"`, strings.Repeat(" ", litellm.MaxFile+1)} {
		if _, _, err := litellm.Parse([]byte(raw), ""); !errors.Is(err, litellm.ErrFile) || strings.Contains(err.Error(), "%!") {
			t.Errorf("%.20q: %v", raw, err)
		}
	}
}

// Whatever the bytes, a version that comes out can be sealed.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"m":{"litellm_provider":"p","input_cost_per_token":1e-6,"input_cost_per_token_above_128k_tokens":"2e-6"}}`))
	f.Add([]byte(`{"m":{"litellm_provider":"p","tiered_pricing":[{"range":[0,1],"input_cost_per_token":1},{"range":[0,1],"input_cost_per_token":1}]}}`))
	f.Add([]byte(`{"m":{"litellm_provider":"p","search_context_cost_per_query":{"search_context_size_low":1},"provider_specific_entry":{"us":1.1}}}`))
	f.Add(sampleFile(f))
	f.Fuzz(func(t *testing.T, raw []byte) {
		rows, _, err := litellm.Parse(raw, "fuzz")
		if err != nil {
			return
		}
		for _, r := range rows {
			if _, err := r.Seal(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func BenchmarkParse(b *testing.B) {
	raw := sampleFile(b)
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		if _, _, err := litellm.Parse(raw, "bench"); err != nil {
			b.Fatal(err)
		}
	}
}
