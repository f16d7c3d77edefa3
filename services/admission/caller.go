package admission

import (
	"context"
	"crypto/tls"
	"fmt"
	"strings"
	"time"

	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/ladder"
	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/identity"
)

// credentials are what a request says about who sent it, in whatever protocol it came.
type credentials struct {
	authorization string               // the header or metadata of that name
	tenant        string               // which of a service credential's tenants is meant
	tls           *tls.ConnectionState // nil without TLS
	language      string               // the header Accept-Language, or metadata of that name
	twice         string               // a header of those two that is there more than once, "" for none
	ends          bool                 // the call only ends what was admitted: a settle or a release
}

// caller is who asks, verified, and for which tenant.
type caller struct {
	tenant    string
	contract  *tenant.Contract // the catalog's own: nobody changes it
	principal identity.Principal
	language  ladder.Language // that texts for the end user are asked for in; "" = the plan's
}

// identify verifies the credential and picks the tenant.
func (s *Service) identify(ctx context.Context, given credentials) (caller, error) {
	if p := s.unready(); p != nil {
		return caller{}, p
	}
	if p := unclear(given.twice); p != nil {
		return caller{}, p
	}
	now := s.deps.Now()
	principal, err := s.authenticate(ctx, given, now)
	if err != nil {
		return caller{}, identityProblem(err)
	}
	c, err := s.callerOf(principal, given.tenant, given.ends, now)
	c.language = languageOf(given.language)
	return c, err
}

// repeatedHeader is the header that says more than once who sent a request, "" for none. Whoever reads the first and
// whoever reads the last, as a proxy may, would see two callers.
func repeatedHeader(authorization, tenant []string) string {
	switch {
	case len(authorization) > 1:
		return "Authorization"
	case len(tenant) > 1:
		return tenantHeader
	default:
		return ""
	}
}

// unclear refuses a request that has such a header.
func unclear(header string) *Problem {
	switch header {
	case "":
		return nil
	case tenantHeader:
		return repeated(header)
	default:
		return problem(admit.Unauthenticated, header+" is there twice.")
	}
}

// unready refuses while the catalogs are not loaded. Nobody can be judged then: that is an outage, and never a 401.
func (s *Service) unready() *Problem {
	if s.catalogs.loaded() && s.kills.mirrorRead.Load() {
		return nil
	}
	if p := s.killed("", "", ""); p != nil { // known from the mirror while Kafka is away, and not to be retried
		return p
	}
	return problem(admit.StoreUnavailable, "Tenants, keys and prices are not loaded yet.")
}

// callerOf picks the tenant of a request, which must exist. named is the one that the request names, if any. A tenant that was removed
// may still end what it was admitted to: the call was made, and is charged as what it used instead of as what was estimated.
func (s *Service) callerOf(principal identity.Principal, named string, ends bool, now time.Time) (caller, error) {
	name, err := principal.Tenant(named)
	if err != nil {
		return caller{}, identityProblem(err)
	}
	contract := s.catalogs.tenants.InForce(name, now)
	if contract == nil || contract.Removed && !ends {
		return caller{}, problem(admit.ForbiddenTenant, "There is no such tenant, or it was removed.")
	}
	return caller{tenant: name, contract: contract, principal: principal}, nil
}

// authenticate takes the Authorization header or, where there is none, the client certificate.
func (s *Service) authenticate(ctx context.Context, given credentials, now time.Time) (identity.Principal, error) {
	if given.authorization == "" && given.tls != nil && len(given.tls.VerifiedChains) > 0 {
		return identity.VerifyCertificate(given.tls, s.tenantOfIdentity, now)
	}
	scheme, credential, ok := strings.Cut(given.authorization, " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return identity.Principal{}, fmt.Errorf("%w: send Authorization: Bearer KEY", identity.ErrUnauthenticated)
	}
	credential = strings.TrimSpace(credential)
	if strings.HasPrefix(credential, "wk_") || s.jwt == nil {
		return identity.VerifyAPIKey(credential, s.catalogs.apiKeys.Get, now)
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Deadline)
	defer cancel()
	return s.jwt.Verify(ctx, credential, now)
}
