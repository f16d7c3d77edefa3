package usage

// parsePerplexity reads Perplexity, whose deep research reports reasoning,
// citations and searches outside the prompt, the completion and the total.
func parsePerplexity(u *reading, raw []byte) (bool, error) {
	o, err := readOpenAI(u, raw)
	if o == nil {
		return false, err
	}
	p, c := o.prompt(), o.completion()
	c.reasoning = 0
	u.checkTotal(o, p.total+c.total, p.total+c.total+o.ReasoningTokens.n, p.total+c.total+o.ReasoningTokens.n+o.CitationTokens.n)
	if err := u.addPrompt(p, CacheWrite); err != nil {
		return false, err
	}
	u.Meters.Add(Reasoning, o.ReasoningTokens.n)
	u.Meters.Add(Citation, o.CitationTokens.n)
	u.Meters.Add(WebSearch, o.SearchQueries.n)
	return true, u.addCompletion(c)
}
