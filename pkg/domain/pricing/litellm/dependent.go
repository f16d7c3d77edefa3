package litellm

import (
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/usage"
)

// dependsOnOthers lists the fields whose meaning depends on the row's mode or
// on its other fields.
func dependsOnOthers(base string) bool {
	switch base {
	case "input_cost_per_token_cache_hit", "cache_creation_input_audio_token_cost",
		"input_cost_per_image", "input_cost_per_second", "output_cost_per_second",
		"input_cost_per_pixel", "output_cost_per_pixel":
		return true
	}
	return false
}

// dependent maps those fields, after all others are read.
func (r *row) dependent() {
	r.cacheHit()
	r.cachedAudio()
	r.images()
	r.seconds()
	r.pixels()
}

// cacheHit is DeepSeek's old spelling of the cache read price.
func (r *row) cacheHit() {
	const name = "input_cost_per_token_cache_hit"
	hit, ok := r.numbers[name]
	if !ok {
		return
	}
	r.second(name, usage.CacheRead, hit)
}

// second maps a price that may already be there under its usual name.
func (r *row) second(name string, m usage.Meter, d money.Decimal) {
	had, ok := r.find(m, "", 0)
	switch {
	case !ok:
		r.rate(m, field{}, d)
	case had.Cmp(d) == 0:
		r.report(name, Duplicate, "the same price as %s has already", m)
	default:
		r.report(name, Conflict, "%s here, %s under its usual name for %s: the dearer one taken", d, had, m)
		for i, rate := range r.version.Rates {
			if rate.Meter == m && rate.ServiceTier == "" && rate.AboveTokens == 0 {
				r.version.Rates[i].USDPerUnit = dearer(had, d)
			}
		}
	}
}

// cachedAudio: several rows put the price of reading cached audio under the
// name of writing it. Writing is never cheaper than not caching.
func (r *row) cachedAudio() {
	const name = "cache_creation_input_audio_token_cost"
	d, ok := r.numbers[name]
	if !ok {
		return
	}
	plain, hasPlain := r.find(usage.InputAudio, "", 0)
	_, hasRead := r.find(usage.AudioCacheRead, "", 0)
	if hasPlain && !hasRead && d.Cmp(plain) < 0 {
		r.report(name, Misnamed, "%s is below the audio rate %s: taken as the price of reading cached audio", d, plain)
		r.rate(usage.AudioCacheRead, field{}, d)
		return
	}
	r.rate(usage.AudioCacheWrite, field{}, d)
}

// images: in the modes that make images, the "input" price is per image made.
func (r *row) images() {
	const name = "input_cost_per_image"
	d, ok := r.numbers[name]
	if !ok {
		return
	}
	if r.version.Mode == "image_generation" || r.version.Mode == "image_edit" {
		r.second(name, usage.OutputImages, d)
		return
	}
	r.rate(usage.InputImages, field{}, d)
}

// seconds: time has one price. Rows that carry it on both sides mean it once.
func (r *row) seconds() {
	in, hasIn := r.numbers["input_cost_per_second"]
	out, hasOut := r.numbers["output_cost_per_second"]
	inMeter, outMeter := usage.InputSeconds, usage.OutputSeconds
	switch r.version.Mode {
	case "audio_transcription":
		inMeter, outMeter = usage.AudioSeconds, usage.AudioSeconds
	case "audio_speech":
		inMeter, outMeter = usage.OutputAudioSeconds, usage.OutputAudioSeconds
	case "video_generation":
		inMeter, outMeter = usage.InputVideoSeconds, usage.VideoSeconds
	}
	if hasIn && hasOut && inMeter == outMeter {
		if out.IsZero() {
			r.report("output_cost_per_second", Placeholder, "zero beside an input price of %s", in)
			hasOut = false
		} else if in.IsZero() {
			r.report("input_cost_per_second", Placeholder, "zero beside an output price of %s", out)
			hasIn = false
		}
	}
	if hasIn {
		r.second("input_cost_per_second", inMeter, in)
	}
	if hasOut {
		r.second("output_cost_per_second", outMeter, out)
	}
}

// pixels: the "input" price is per pixel made; the output one is a zero that
// only fills the field.
func (r *row) pixels() {
	in, hasIn := r.numbers["input_cost_per_pixel"]
	out, hasOut := r.numbers["output_cost_per_pixel"]
	if hasIn && hasOut && out.IsZero() {
		r.report("output_cost_per_pixel", Placeholder, "zero beside an input price of %s", in)
		hasOut = false
	}
	if hasIn {
		r.rate(usage.OutputPixels, field{}, in)
	}
	if hasOut {
		r.second("output_cost_per_pixel", usage.OutputPixels, out)
	}
}
