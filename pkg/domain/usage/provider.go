package usage

import "strings"

// ProviderName is a provider's name as all here write it: without regard to
// the case and the blanks around of whoever said it ("OpenAI " is openai).
// Whatever looks a provider up, or keeps its name, does so by it.
func ProviderName(said string) string { return strings.ToLower(strings.TrimSpace(said)) }
