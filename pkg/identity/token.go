package identity

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/money"
)

const (
	tokenType     = "weir-exec+jwt"
	tokenIssuer   = "weir/admission"
	tokenAudience = "weir"
	maxToken      = 4 << 10
)

var (
	// ErrDepthExceeded says that a child would be deeper than its root allows.
	ErrDepthExceeded = errors.New("execution depth exceeded")
	// ErrTooManyLimits says that the limit of dollars was lowered admit.MaxBranches times above a child that would lower it again.
	ErrTooManyLimits = errors.New("max_cost_usd was lowered too often on the way down to this agent")
)

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
	// MaxCost is the lowest limit of cumulative cost in nano-dollars that the agent is under, its root's or that of the last
	// branch; 0 = no limit.
	MaxCost money.Nano
	// Branches are those in which the agent's calls count, from the root's side down: one for each time that a child was
	// given less than its parent. A token of before branches were there has none.
	Branches  []admit.Branch
	ExpiresAt time.Time
}

// RootMaxCost is the limit of the root alone, as far as the token tells; 0 = no limit, or it does not tell.
func (e Execution) RootMaxCost() money.Nano {
	if len(e.Branches) > 0 {
		return 0
	}
	return e.MaxCost
}

// OwnBranch is the branch that begins with this agent, which has less than its parent; false if none does.
func (e Execution) OwnBranch(parent Execution) (admit.Branch, bool) {
	if len(e.Branches) == len(parent.Branches) {
		return admit.Branch{}, false
	}
	return e.Branches[len(e.Branches)-1], true
}

// Child is the execution of an agent started by e: one deeper, same tenant and root, limits that only fall. Zero
// maxDepth and maxCost ask for nothing lower; an empty cost centre inherits. It never lives longer than its parent. A lower
// maxCost begins a branch with that id. Beyond the maximum depth it is ErrDepthExceeded.
func (e Execution) Child(agent, costCenter string, maxDepth int, maxCost money.Nano, branch string, expiresAt time.Time) (Execution, error) {
	child := e
	child.ParentAgent, child.Agent = e.Agent, agent
	child.Depth = e.Depth + 1
	if costCenter != "" {
		child.CostCenter = costCenter
	}
	child.MaxDepth = lower(e.MaxDepth, maxDepth)
	child.MaxCost = lower(e.MaxCost, maxCost)
	if child.MaxCost != e.MaxCost {
		if len(e.Branches) >= admit.MaxBranches {
			return Execution{}, fmt.Errorf("%w: %d times, which is as often as it may be", ErrTooManyLimits, len(e.Branches))
		}
		child.Branches = append(slices.Clone(e.Branches), admit.Branch{ID: branch, MaxCost: child.MaxCost})
	}
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
	// Branches is left out where there are none, so that such a token is what it always was.
	Branches []branchClaim `json:"branches,omitempty"`
	jwt.RegisteredClaims
}

type branchClaim struct {
	ID         string `json:"id"`
	MaxCostUSD string `json:"max_cost_usd"`
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
	for _, b := range e.Branches {
		claims.Branches = append(claims.Branches, branchClaim{b.ID, b.MaxCost.USD().String()})
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
	var err error
	if c.MaxCostUSD != "" {
		if e.MaxCost, err = limitOf(c.MaxCostUSD); err != nil {
			return Execution{}, err
		}
	}
	e.Branches, err = c.branches()
	if err != nil {
		return Execution{}, err
	}
	return e, nil
}

// branches refuses a chain that no admission signed, whatever its signature says: a branch counted twice, or nameless, would
// be another limit than the one that was given.
func (c tokenClaims) branches() ([]admit.Branch, error) {
	var out []admit.Branch
	for _, b := range c.Branches {
		limit, err := limitOf(b.MaxCostUSD)
		if err != nil {
			return nil, err
		}
		twice := slices.ContainsFunc(out, func(before admit.Branch) bool { return before.ID == b.ID })
		if b.ID == "" || len(b.ID) > maxBranchID || twice || len(out) == admit.MaxBranches {
			return nil, fmt.Errorf("%w: execution token: branches", ErrUnauthenticated)
		}
		out = append(out, admit.Branch{ID: b.ID, MaxCost: limit})
	}
	return out, nil
}

// maxBranchID bounds a branch's id in bytes, as every id.
const maxBranchID = 128

// limitOf reads a limit of dollars. Zero would mean no limit.
func limitOf(text string) (money.Nano, error) {
	usd, err := money.ParseUSD(text)
	if err != nil {
		return 0, fmt.Errorf("%w: execution token: max_cost_usd", ErrUnauthenticated)
	}
	limit, err := money.CeilNano(usd)
	if err != nil || limit <= 0 {
		return 0, fmt.Errorf("%w: execution token: max_cost_usd", ErrUnauthenticated)
	}
	return limit, nil
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
