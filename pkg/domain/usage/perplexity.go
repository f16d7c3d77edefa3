package usage

// parsePerplexity reads Perplexity, whose deep research reports reasoning,
// citations and searches outside the prompt, the completion and the total.
func parsePerplexity(u *Usage, raw []byte) (bool, error) {
	o, err := readOpenAI(u, raw)
	if err != nil {
		return false, err
	}
	if o == nil {
		u.flag(FlagMissing)
		return false, nil
	}
	c := o.completion()
	c.reasoning = 0
	if err := u.addPrompt(o.prompt(), CacheWrite); err != nil {
		return false, err
	}
	u.add(Reasoning, o.ReasoningTokens.n)
	u.add(Citation, o.CitationTokens.n)
	u.add(WebSearch, o.SearchQueries.n)
	return true, u.addCompletion(c)
}
