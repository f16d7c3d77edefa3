package admission

import (
	"errors"
	"sync/atomic"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/catalog"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/identity"
)

// catalogs are the current copies of what billing and admission publish for all: every replica follows all of it.
type catalogs struct {
	tenants *catalog.Tenants
	apiKeys *catalog.APIKeys
	signing *catalog.SigningKeys
	tokens  *identity.TokenCache // execution tokens, by signing
	prices  *catalog.Prices
	// followers are those of the four, of the revocations and of the kill switches.
	followers []*bus.Follower
	ownKey    string
	wasLoaded atomic.Bool // what was applied once was applied once
}

func (s *Service) followCatalogs() {
	bad := func(topic, key string, err error) {
		s.metrics.badRecords.WithLabelValues(topic).Inc()
		s.deps.Log.Error("catalog record refused; the last good value stays", "topic", topic, "key", key, "error", err)
	}
	c := &catalogs{tenants: catalog.NewTenants(bad), apiKeys: catalog.NewAPIKeys(bad), signing: catalog.NewSigningKeys(bad),
		prices: catalog.NewPrices(bad), ownKey: s.cfg.TokenKey.ID}
	c.tokens = identity.NewTokenCache(c.signing.Get)
	s.kills = newKillSwitch(bad)
	c.followers = []*bus.Follower{
		s.conn.Follow(topics.CatalogTenants, c.tenants.Apply),
		s.conn.Follow(topics.CatalogApikeys, c.apiKeys.Apply),
		s.conn.Follow(topics.ControlKeys, c.signing.Apply),
		s.conn.Follow(topics.CatalogPrices, c.prices.Apply),
		s.conn.Follow(topics.ExecutionsRevoked, s.applyRevocation),
		s.conn.Follow(topics.ControlKillswitch, s.kills.apply),
	}
	s.catalogs = c
	for _, f := range c.followers {
		s.observe.AddCatalog(f.Topic().Name(), f.Ready, f.Offsets)
	}
}

// loaded reports whether everything needed to judge a request was applied once, revocations and kills included.
func (c *catalogs) loaded() bool {
	if c.wasLoaded.Load() {
		return true
	}
	for _, f := range c.followers {
		if !f.Ready() {
			return false
		}
	}
	_, ok := c.signing.Get(c.ownKey)
	if ok {
		c.wasLoaded.Store(true)
	}
	return ok
}

// tenantOfClaim maps a JWT's tenant claim: to the tenant of that name, removed or not, else to the one that lists it
// among its identities.
func (s *Service) tenantOfClaim(claim string) (string, bool) {
	if s.catalogs == nil {
		return "", false
	}
	if _, ok := s.catalogs.tenants.History(claim); ok {
		return claim, true
	}
	return s.tenantOfIdentity("jwt:" + claim)
}

// tenantOfIdentity is the tenant that lists an external identity now.
func (s *Service) tenantOfIdentity(identity string) (string, bool) {
	return s.catalogs.tenants.OfIdentity(identity, s.deps.Now())
}

// newJWT makes the verifier of callers' JWTs; nil where none is configured.
func (s *Service) newJWT() (*identity.JWTVerifier, error) {
	if s.cfg.JWKSURL == "" {
		return nil, nil
	}
	cfg := s.cfg.JWT
	cfg.MapTenant = s.tenantOfClaim
	s.jwks = identity.NewJWKS(s.cfg.JWKSURL, nil)
	v, err := identity.NewJWTVerifier(cfg, s.jwks)
	if err != nil {
		return nil, errors.Join(errors.New("admission: JWT"), err)
	}
	return v, nil
}
