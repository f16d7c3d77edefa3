// Package identity answers who is asking and who signed (ARCHITECTURE.md, invariant I8).
//
// It owns: API keys, JWTs, client certificates and webhooks of callers (Principal), execution tokens (EdDSA), receipts and
// the HMAC under which admission and the breaker sign what they write to Kafka, and the values of control.keys.v1.
// It does not own: storage of keys (catalogs give a lookup), tenants' contracts, HTTP answers.
//
// Invariants:
//   - A tenant comes from a verified credential or signature only, never from a body, a prompt or trace state.
//   - Every failure to verify is ErrUnauthenticated; every failure to reach what is needed to verify is ErrUnavailable.
//     They are never mixed up: a client throws its key away at a 401, so an outage must not look like one.
//   - Secrets are compared in constant time, and no error or String method contains one.
//   - The three signed formats cannot be taken for one another: tokens carry their own `typ`, issuer and audience,
//     receipts are signed with a prefix, record values without one.
//   - A header or member that is there twice is refused: two readers could see two different requests.
//
// Bounds: the memory of webhooks (maxSlackSeen; when full, 503), of tokens (maxRemembered) and of key sets (maxJWKSKeys),
// secrets per platform (maxSecrets).
package identity

import "errors"

// ErrUnauthenticated says that credentials are missing, malformed, expired or forged. HTTP 401.
var ErrUnauthenticated = errors.New("unauthenticated")

// ErrForbiddenTenant says that a valid credential does not act for the tenant that was asked for. HTTP 403.
var ErrForbiddenTenant = errors.New("the credential does not act for this tenant")

// ErrTenantNotNamed means that a credential of several tenants came without the name of one.
var ErrTenantNotNamed = errors.New("the credential acts for several tenants: the request must name one")

// ErrUnavailable says that it cannot be decided now: the key set was never loaded, for example. HTTP 503.
var ErrUnavailable = errors.New("identity cannot be verified now")
