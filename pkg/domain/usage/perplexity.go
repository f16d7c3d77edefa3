package usage

// parsePerplexity reads Perplexity, whose deep research reports reasoning,
// citations and searches outside the prompt, the completion and the total.
func parsePerplexity(u *reading, raw []byte) (bool, error) {
	o, err := readOpenAI(u, raw)
	if err != nil {
		return false, err
	}
	if o == nil {
		u.flag(FlagMissing)
		return false, nil
	}
	p, c := o.prompt(), o.completion()
	c.reasoning = 0
	u.checkTotal(o, p.total+c.total, p.total+c.total+o.ReasoningTokens.n, p.total+c.total+o.ReasoningTokens.n+o.CitationTokens.n)
	if err := u.addPrompt(p, CacheWrite); err != nil {
		return false, err
	}
	u.add(Reasoning, o.ReasoningTokens.n)
	u.add(Citation, o.CitationTokens.n)
	u.add(WebSearch, o.SearchQueries.n)
	return true, u.addCompletion(c)
}
