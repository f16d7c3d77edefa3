package usage

import "fmt"

// prompt holds the counts of a prompt as most providers state them: total is
// all, the others are parts of it, and the cached ones may cut across the
// modalities.
type prompt struct {
	total, cached, written, audio, image, video int64
	cachedAudio                                 int64 // part of both cached and audio
}

// addPrompt adds the disjoint meters of p; writes go to the given meter.
//
// Providers seldom say of which modality the cached part is. It is taken from
// text first; what exceeds the text comes out of audio, image and video, in
// that order, and is flagged (xAI repeats cached tokens elsewhere too).
func (u *Usage) addPrompt(p prompt, writes Meter) error {
	if p.cached+p.written > p.total || p.audio+p.image+p.video > p.total || p.cachedAudio > min(p.cached, p.audio) {
		return fmt.Errorf("%w: parts of the prompt exceed it: %d tokens in all, of which cached %d (audio %d), written to the cache %d, audio %d, image %d, video %d",
			ErrNegative, p.total, p.cached, p.cachedAudio, p.written, p.audio, p.image, p.video)
	}
	text := p.total - p.audio - p.image - p.video
	p.audio -= p.cachedAudio
	cached := p.cached - p.cachedAudio
	if cached+p.written > text {
		u.flag(FlagCacheOverlap)
	}
	rest := take(cached, &text)
	audio := rest - take(rest, &p.audio)
	take(take(rest-audio, &p.image), &p.video)
	take(take(take(take(p.written, &text), &p.audio), &p.image), &p.video)

	u.Meters.Add(Input, text)
	u.Meters.Add(CacheRead, cached-audio)
	u.Meters.Add(AudioCacheRead, p.cachedAudio+audio)
	u.Meters.Add(writes, p.written)
	u.Meters.Add(InputAudio, p.audio)
	u.Meters.Add(InputImage, p.image)
	u.Meters.Add(InputVideo, p.video)
	return nil
}

// take lowers pool by up to n and returns what it could not take.
func take(n int64, pool *int64) int64 {
	got := min(n, *pool)
	*pool -= got
	return n - got
}

// completion holds the counts of a completion; the others are parts of total.
type completion struct {
	total, reasoning, audio, image int64
}

func (u *Usage) addCompletion(c completion) error {
	plain := c.total - c.reasoning - c.audio - c.image
	if plain < 0 {
		return fmt.Errorf("%w: parts of the completion exceed it: %d tokens in all, of which reasoning %d, audio %d, image %d",
			ErrNegative, c.total, c.reasoning, c.audio, c.image)
	}
	u.Meters.Add(Output, plain)
	u.Meters.Add(Reasoning, c.reasoning)
	u.Meters.Add(OutputAudio, c.audio)
	u.Meters.Add(OutputImage, c.image)
	return nil
}
