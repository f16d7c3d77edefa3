package identity

import (
	"crypto/sha256"
	"sync"
	"time"

	"github.com/weir-project/weir/pkg/gen/weirv1"
)

// maxRemembered bounds the tokens that TokenCache remembers, in each of its two generations: about 2 MB together,
// 6 MB if each has all the branches that it may have.
const maxRemembered = 4096

// TokenCache verifies execution tokens, each signature once: that costs as much as everything else in a request
// together, and an agent shows its token at every call. It remembers only tokens that were good, by their SHA-256, so
// that no stranger can fill it. What may change in the life of a token is looked at every time: the time itself and the
// key that signed. Safe for concurrent use.
type TokenCache struct {
	lookup LookupSigningKey

	mu sync.RWMutex
	// recent takes what is new; when it is full it becomes older, and what was older is forgotten.
	recent, older map[tokenSum]verified
}

type tokenSum [sha256.Size]byte

// verified is what a good token said, and who signed it.
type verified struct {
	execution Execution
	kid       string
	key       *weirv1.SigningKey // as the catalog had it
}

// NewTokenCache remembers nothing yet. Keys are those of lookup.
func NewTokenCache(lookup LookupSigningKey) *TokenCache {
	return &TokenCache{lookup: lookup, recent: map[tokenSum]verified{}}
}

// Verify is VerifyExecutionToken.
func (c *TokenCache) Verify(token string, at time.Time) (Execution, error) {
	if len(token) > maxToken { // before it costs anything
		e, _, err := verifyExecutionToken(token, c.lookup, at)
		return e, err
	}
	var usual [1024]byte // a copy that no heap has
	sum := tokenSum(sha256.Sum256(append(usual[:0], token...)))
	if v, ok := c.find(sum); ok && c.stands(v, at) {
		return v.execution, nil
	}
	var key *weirv1.SigningKey
	e, kid, err := verifyExecutionToken(token, func(id string) (*weirv1.SigningKey, bool) {
		record, ok := c.lookup(id)
		key = record
		return record, ok
	}, at)
	if err == nil {
		c.remember(sum, verified{execution: e, kid: kid, key: key})
	}
	return e, err
}

// stands reports whether a token that was good is good at another time, as far as the signature does not tell.
func (c *TokenCache) stands(v verified, at time.Time) bool {
	if !at.Before(v.execution.ExpiresAt) {
		return false
	}
	record, ok := c.lookup(v.kid)
	// The same record as then, so what else it must be was looked at then; a changed one is looked at again.
	return ok && record == v.key && validAt(record, at)
}

func (c *TokenCache) find(sum tokenSum) (verified, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if v, ok := c.recent[sum]; ok {
		return v, true
	}
	v, ok := c.older[sum]
	return v, ok
}

func (c *TokenCache) remember(sum tokenSum, v verified) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.recent) >= maxRemembered {
		c.older, c.recent = c.recent, make(map[tokenSum]verified, maxRemembered)
	}
	c.recent[sum] = v
}
