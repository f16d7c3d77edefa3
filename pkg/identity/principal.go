package identity

import (
	"fmt"
	"slices"
)

// Method says how a caller proved who it is.
type Method string

// The methods, each with its verifier.
const (
	MethodAPIKey   Method = "api_key"
	MethodJWT      Method = "jwt"
	MethodMTLS     Method = "mtls"
	MethodSlack    Method = "slack"
	MethodTelegram Method = "telegram"
)

// Principal is a verified caller.
type Principal struct {
	Method Method
	// KeyID is the API key's id, the JWT's subject, the certificate's name or the webhook's user: for logs and, of API keys, the
	// sub-scopes; never a secret. It may be as long as the credential.
	KeyID string
	// Tenants are the tenants the credential may act for. Never empty.
	Tenants []string
}

// Tenant picks the tenant of one request. asked is the X-Weir-Tenant header; empty means the credential's only tenant, and
// where it has several ErrTenantNotNamed: money that is spent for the wrong one cannot be moved. A tenant outside the
// credential's list is ErrForbiddenTenant, whether it exists or not.
func (p Principal) Tenant(asked string) (string, error) {
	if len(p.Tenants) == 0 {
		return "", fmt.Errorf("%w: the credential names no tenant", ErrForbiddenTenant)
	}
	if asked == "" {
		if slices.ContainsFunc(p.Tenants, func(t string) bool { return t != p.Tenants[0] }) {
			return "", ErrTenantNotNamed
		}
		return p.Tenants[0], nil
	}
	if !slices.Contains(p.Tenants, asked) {
		return "", fmt.Errorf("%w: %q", ErrForbiddenTenant, asked)
	}
	return asked, nil
}
