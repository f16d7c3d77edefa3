package identity

import (
	"errors"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/weir-project/weir/pkg/domain/money"
)

const (
	tokenType     = "weir-exec+jwt"
	tokenIssuer   = "weir/admission"
	tokenAudience = "weir"
	maxToken      = 4 << 10
)

// ErrDepthExceeded says that a child would be deeper than its root allows.
var ErrDepthExceeded = errors.New("execution depth exceeded")

// Execution is what an execution token proves: one agent's place in a tree, and the limits of the tree's root.
type Execution struct {
	Tenant      string
	Root        string
	ParentAgent string
	Agent       string
	CostCenter  string
	// Depth is 0 for the root's own agent, 1 for its children, …
	Depth int
	// MaxDepth is the deepest Depth allowed; 0 = no limit.
	MaxDepth int
	// MaxCost bounds the root's cumulative cost in nano-dollars; 0 = no limit.
	MaxCost   money.Nano
	ExpiresAt time.Time
}

// Child is the execution of an agent started by e: one deeper, same tenant and root, limits that only fall. Zero
// maxDepth and maxCost ask for nothing lower; an empty cost centre inherits. It never lives longer than its parent.
// Beyond the maximum depth it is ErrDepthExceeded.
func (e Execution) Child(agent, costCenter string, maxDepth int, maxCost money.Nano, expiresAt time.Time) (Execution, error) {
	child := e
	child.ParentAgent, child.Agent = e.Agent, agent
	child.Depth = e.Depth + 1
	if costCenter != "" {
		child.CostCenter = costCenter
	}
	child.MaxDepth = lower(e.MaxDepth, maxDepth)
	child.MaxCost = lower(e.MaxCost, maxCost)
	if expiresAt.Before(e.ExpiresAt) {
		child.ExpiresAt = expiresAt
	}
	if child.MaxDepth > 0 && child.Depth > child.MaxDepth {
		return Execution{}, fmt.Errorf("%w: depth %d, at most %d", ErrDepthExceeded, child.Depth, child.MaxDepth)
	}
	return child, nil
}

// lower is the stricter of two limits where 0 means none.
func lower[N ~int | ~int64](a, b N) N {
	switch {
	case a <= 0:
		return b
	case b <= 0:
		return a
	default:
		return min(a, b)
	}
}

// tokenClaims is the JWT's payload. Money is a decimal string, as everywhere on the wire.
type tokenClaims struct {
	Tenant      string `json:"tenant"`
	Root        string `json:"root"`
	ParentAgent string `json:"parent_agent,omitempty"`
	Agent       string `json:"agent,omitempty"`
	CostCenter  string `json:"cost_center,omitempty"`
	Depth       int    `json:"depth"`
	MaxDepth    int    `json:"max_depth,omitempty"`
	MaxCostUSD  string `json:"max_cost_usd,omitempty"`
	jwt.RegisteredClaims
}

// SignExecutionToken makes the token of e, valid from now until e.ExpiresAt.
func (k TokenKey) SignExecutionToken(e Execution, now time.Time) (string, error) {
	claims := tokenClaims{
		Tenant: e.Tenant, Root: e.Root, ParentAgent: e.ParentAgent, Agent: e.Agent, CostCenter: e.CostCenter,
		Depth: e.Depth, MaxDepth: e.MaxDepth,
		RegisteredClaims: jwt.RegisteredClaims{
			Issuer: tokenIssuer, Audience: jwt.ClaimStrings{tokenAudience},
			IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(e.ExpiresAt),
		},
	}
	if e.MaxCost > 0 {
		claims.MaxCostUSD = e.MaxCost.USD().String()
	}
	t := jwt.NewWithClaims(jwt.SigningMethodEdDSA, claims)
	t.Header["kid"], t.Header["typ"] = k.ID, tokenType
	text, err := t.SignedString(k.private)
	if err != nil {
		return "", fmt.Errorf("identity: sign execution token: %w", err)
	}
	return text, nil
}

// VerifyExecutionToken checks a token as of the time at: now for a caller, the event's own time (bounded by the
// broker's) for a usage event, so that an outage or a replay loses nothing. All errors are ErrUnauthenticated: a caller
// that has not loaded control.keys.v1 yet is not ready and must not ask.
func VerifyExecutionToken(token string, lookup LookupSigningKey, at time.Time) (Execution, error) {
	e, _, err := verifyExecutionToken(token, lookup, at)
	return e, err
}

// verifyExecutionToken also tells the id of the key that signed, which is the hash of that key.
func verifyExecutionToken(token string, lookup LookupSigningKey, at time.Time) (Execution, string, error) {
	if len(token) > maxToken {
		return Execution{}, "", fmt.Errorf("%w: the execution token is too long", ErrUnauthenticated)
	}
	var claims tokenClaims
	parser := jwt.NewParser(jwt.WithValidMethods([]string{tokenAlgorithm}), jwt.WithIssuer(tokenIssuer),
		jwt.WithAudience(tokenAudience), jwt.WithExpirationRequired(), jwt.WithStrictDecoding(),
		jwt.WithTimeFunc(func() time.Time { return at }))
	parsed, err := parser.ParseWithClaims(token, &claims, findKey(lookup, at))
	if err != nil {
		return Execution{}, "", fmt.Errorf("%w: execution token: %s", ErrUnauthenticated, reason(err))
	}
	kid, _ := parsed.Header["kid"].(string)
	e, err := claims.execution()
	return e, kid, err
}

// findKey is the key of a token. The type is compared first: a JWT of the company's identity provider, even if an
// administrator imported its key, is not an execution token.
func findKey(lookup LookupSigningKey, at time.Time) jwt.Keyfunc {
	return func(t *jwt.Token) (any, error) {
		if t.Header["typ"] != tokenType {
			return nil, errors.New("wrong type")
		}
		if _, there := t.Header["crit"]; there {
			return nil, errors.New("an extension that is not understood here")
		}
		kid, _ := t.Header["kid"].(string)
		record, ok := lookup(kid)
		if !ok {
			return nil, errors.New("unknown key")
		}
		public, ok := publicAt(record, kid, at)
		if !ok {
			return nil, errors.New("the key is not valid then")
		}
		return public, nil
	}
}

func (c tokenClaims) execution() (Execution, error) {
	e := Execution{Tenant: c.Tenant, Root: c.Root, ParentAgent: c.ParentAgent, Agent: c.Agent, CostCenter: c.CostCenter,
		Depth: c.Depth, MaxDepth: c.MaxDepth, ExpiresAt: c.ExpiresAt.Time}
	if e.Tenant == "" || e.Root == "" || e.Depth < 0 || e.MaxDepth < 0 {
		return Execution{}, fmt.Errorf("%w: the execution token lacks a claim", ErrUnauthenticated)
	}
	if c.MaxCostUSD == "" {
		return e, nil
	}
	usd, err := money.ParseUSD(c.MaxCostUSD)
	if err == nil {
		e.MaxCost, err = money.CeilNano(usd)
	}
	if err != nil || e.MaxCost <= 0 { // zero would mean no limit
		return Execution{}, fmt.Errorf("%w: execution token: max_cost_usd", ErrUnauthenticated)
	}
	return e, nil
}

// reason names a jwt failure in a few fixed words: the library's own text quotes the token.
func reason(err error) string {
	for _, known := range []struct {
		err  error
		text string
	}{
		{jwt.ErrTokenMalformed, "malformed"}, {jwt.ErrTokenUnverifiable, "unknown key, type or algorithm"},
		{jwt.ErrTokenSignatureInvalid, "bad signature"}, {jwt.ErrTokenExpired, "expired"},
		{jwt.ErrTokenNotValidYet, "not valid yet"}, {jwt.ErrTokenUsedBeforeIssued, "not valid yet"},
		{jwt.ErrTokenInvalidAudience, "wrong audience"}, {jwt.ErrTokenInvalidIssuer, "wrong issuer"},
		{jwt.ErrTokenRequiredClaimMissing, "a required claim is missing"},
	} {
		if errors.Is(err, known.err) {
			return known.text
		}
	}
	return "not valid"
}
