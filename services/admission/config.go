package admission

import (
	"errors"
	"io"
	"time"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/config"
	"github.com/weir-project/weir/pkg/domain/recovery"
	"github.com/weir-project/weir/pkg/gen/weirv1"
	"github.com/weir-project/weir/pkg/identity"
)

// Config is everything an operator chooses. LoadConfig fills and checks it.
type Config struct {
	Kafka    bus.Address
	Redis    string // client URL
	Postgres string // client URL
	HTTP     string // host:port of the API, health and metrics
	GRPC     string // host:port of the API over gRPC; "" = none

	LogLevel, LogFormat string

	// Secret signs receipts and usage events; the attributor has the same.
	Secret identity.Secret
	// TokenKey signs execution tokens; all replicas share it.
	TokenKey identity.TokenKey
	// OldTokenKeys are the public halves of keys that TokenKey replaces: their tokens stay valid until they expire.
	OldTokenKeys []*weirv1.SigningKey

	// JWKSURL is where the callers' JWT keys are; "" = no JWTs are taken.
	JWKSURL string
	JWT     identity.JWTConfig
	// Slack and Telegram verify webhooks; nil where none are taken.
	Slack    *identity.SlackVerifier
	Telegram *identity.TelegramVerifier
	// TLS is nil for plain HTTP behind something that ends TLS itself.
	TLS *TLSFiles

	// MaxLease bounds a lease, and is the lease of a reservation that asks for none.
	MaxLease time.Duration
	// Deadline bounds what one request may wait for Redis, and apart from that for Postgres.
	Deadline time.Duration
	// ReapInterval is how often each replica looks for leases that ran out.
	ReapInterval time.Duration
	// TokenTTL is the life of an execution token.
	TokenTTL time.Duration
	// SampleAdmits: one of so many admissions is published on admission.decisions.v1; 0 = none. Refusals and rung changes
	// always are.
	SampleAdmits int64
	// RememberHolds bounds the open holds that this replica remembers, in order to settle them without asking Redis (ADR 0014)
	// and to show them when it is lost, about 400 B each; 0 = none.
	RememberHolds int
	// Retention is how long the end of a reservation is remembered in Postgres; after it, its id may be used again.
	Retention time.Duration

	// layout is how this replica lays counters out: budgetstore.Layout; another one for tests only.
	layout int
	// connectionLasts is budgetstore.Options.ConnectionLasts. For tests only.
	connectionLasts time.Duration
	// afterStep is told of each step of a recovery that this replica leads; its error ends the lead, as a crash there would.
	// For tests only.
	afterStep func(recovery.Step) error
}

// maxRootAge is the oldest a root execution may be: below the 35 days that its revocation and its events are kept, and
// the time that its key stays in Redis.
const maxRootAge = 7 * 24 * time.Hour

// maxRemembered bounds -remember-holds: 7 GB.
const maxRemembered = 1 << 24

// LoadConfig reads flags and environment. run false: exit with code.
func LoadConfig(args []string, lookup func(string) (string, bool), out, errOut io.Writer) (cfg Config, code int, run bool) {
	s := config.New("admission", lookup)
	kafka := s.Address("kafka", "", "Kafka's client URL, e.g. kafka://127.0.0.1:9092")
	redis := s.Address("redis", "", "Redis' client URL")
	postgres := s.Address("postgres", "", "Postgres' client URL")
	http := s.String("http", "127.0.0.1:8080", "address of the API, health and metrics")
	grpc := s.String("grpc", "", "address of the API over gRPC; none: HTTP alone")
	level := s.String("log-level", "info", "debug, info, warn or error")
	format := s.String("log-format", "json", "json or text")
	secret := s.Secret("hmac-secret", "key of receipts and event signatures, shared with the attributor, at least 32 bytes")
	tokenKey := s.Secret("token-key", "Ed25519 key of execution tokens, PEM PKCS8")
	oldKeys := s.Secret("token-old-key", "keys that -token-key-file replaces, PEM, public halves suffice: their tokens stay valid until they expire")
	jwks := s.String("jwt-jwks-url", "", "key set of callers' JWTs; none: no JWTs are taken")
	issuer := s.String("jwt-issuer", "", "iss that a JWT must have")
	audience := s.String("jwt-audience", "", "aud that a JWT must have")
	claim := s.String("jwt-tenant-claim", "tenant", "claim that names the tenant, or the tenants")
	callers(s, &cfg)
	lease := s.Duration("max-lease", 2*time.Minute, "longest lease of a reservation; longer calls extend")
	deadline := s.Duration("deadline", time.Second, "what a request may wait for a store, before 503")
	reap := s.Duration("reap-interval", time.Second, "how often to look for leases that ran out")
	ttl := s.Duration("token-ttl", time.Hour, "life of an execution token")
	sample := s.Int("sample-admits", 100, "publish one of so many admissions on admission.decisions.v1; 0: none")
	remember := s.Int("remember-holds", 65536, "open holds that this replica remembers, to settle them without asking Redis and to show them when it is lost, about 400 B each; 0: none")
	retention := s.Duration("reservation-retention", 90*24*time.Hour, "how long the end of a reservation is remembered")
	s.Require("kafka", "redis", "postgres", "http")
	s.Check(func() (err error) { cfg.Kafka, err = bus.ParseAddress(*kafka); return err })
	s.Check(func() (err error) { cfg.Secret, err = identity.NewSecret([]byte(secret.Value())); return err })
	s.Check(func() (err error) { cfg.TokenKey, err = identity.ParseTokenKey([]byte(tokenKey.Value())); return err })
	s.Check(func() (err error) {
		cfg.OldTokenKeys, err = identity.ParseOldTokenKeys([]byte(oldKeys.Value()), cfg.TokenKey)
		return err
	})
	s.Check(func() error {
		if *jwks != "" && (*issuer == "" || *audience == "" || *claim == "") {
			return errors.New("-jwt-jwks-url needs -jwt-issuer, -jwt-audience and -jwt-tenant-claim")
		}
		return nil
	})
	s.Check(func() error {
		if *lease < time.Second || *deadline <= 0 || *reap <= 0 || *ttl < time.Minute || *retention < 24*time.Hour {
			return errors.New("-max-lease ≥ 1s, -token-ttl ≥ 1m, -reservation-retention ≥ 24h, -deadline and -reap-interval above zero")
		}
		return nil
	})
	s.Check(func() error {
		if *sample < 0 || *remember < 0 || *remember > maxRemembered {
			return errors.New("-sample-admits is not negative, -remember-holds is from 0 to 16777216")
		}
		return nil
	})
	if code, run = s.Load(args, out, errOut); !run {
		return Config{}, code, false
	}
	cfg.Redis, cfg.Postgres, cfg.HTTP, cfg.GRPC, cfg.LogLevel, cfg.LogFormat = *redis, *postgres, *http, *grpc, *level, *format
	cfg.JWKSURL, cfg.JWT = *jwks, identity.JWTConfig{Issuer: *issuer, Audience: *audience, TenantClaim: *claim}
	cfg.MaxLease, cfg.Deadline, cfg.ReapInterval, cfg.TokenTTL, cfg.Retention = *lease, *deadline, *reap, *ttl, *retention
	cfg.SampleAdmits, cfg.RememberHolds = int64(*sample), int(*remember)
	return cfg, 0, true
}

// callers are the flags of who may ask beside API keys and JWTs.
func callers(s *config.Set, cfg *Config) {
	slack := s.Secret("slack-signing-secret", "signing secrets of Slack apps, one a line; none: no :from-slack")
	telegram := s.Secret("telegram-secret", "BOT_ID:SECRET_TOKEN of Telegram bots, one a line; none: no :from-telegram")
	cert := s.String("tls-cert-file", "", "certificate chain of the API, PEM; none: plain HTTP")
	certKey := s.String("tls-key-file", "", "key of -tls-cert-file, PEM")
	clientCA := s.String("client-ca-file", "", "authorities of client certificates, PEM; none: they are not asked for")
	s.Check(func() (err error) {
		if slack.Value() != "" {
			cfg.Slack, err = identity.NewSlackVerifier(slack.Value())
		}
		return err
	})
	s.Check(func() (err error) {
		if telegram.Value() != "" {
			cfg.Telegram, err = identity.NewTelegramVerifier(telegram.Value())
		}
		return err
	})
	s.Check(func() (err error) { cfg.TLS, err = newTLSFiles(*cert, *certKey, *clientCA); return err })
}
