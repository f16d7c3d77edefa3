package catalog

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/gen/weirv1"
)

// keyed is the current copy of a compacted topic whose values are one message type each.
type keyed[M proto.Message] struct {
	bad Bad
	mk  func() M
	mu  sync.RWMutex
	by  map[string]M
}

// apply takes one record; it never fails.
func (k *keyed[M]) apply(r bus.Record) error {
	id := string(r.Key)
	if r.Value == nil {
		k.mu.Lock()
		delete(k.by, id)
		k.mu.Unlock()
		return nil
	}
	m := k.mk()
	if err := proto.Unmarshal(r.Value, m); err != nil {
		k.bad(r.Topic.Name(), id, fmt.Errorf("decode: %w", err))
		return nil
	}
	k.mu.Lock()
	k.by[id] = m
	k.mu.Unlock()
	return nil
}

func (k *keyed[M]) get(id string) (M, bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	m, ok := k.by[id]
	return m, ok
}

// APIKeys is the current copy of catalog.apikeys.v1. Safe for concurrent use; returned messages are not to be changed.
type APIKeys struct{ k keyed[*weirv1.ApiKey] }

// NewAPIKeys is an empty copy; feed it with Apply through bus.Follow.
func NewAPIKeys(bad Bad) *APIKeys {
	return &APIKeys{keyed[*weirv1.ApiKey]{bad: bad, mk: func() *weirv1.ApiKey { return new(weirv1.ApiKey) }, by: map[string]*weirv1.ApiKey{}}}
}

// Apply takes one record of catalog.apikeys.v1; it never fails.
func (a *APIKeys) Apply(r bus.Record) error { return a.k.apply(r) }

// Get is a key by its id; revoked ones are returned too, with revoked_at set.
func (a *APIKeys) Get(keyID string) (*weirv1.ApiKey, bool) { return a.k.get(keyID) }

// List is every key by its id, revoked ones too.
func (a *APIKeys) List() []*weirv1.ApiKey {
	a.k.mu.RLock()
	defer a.k.mu.RUnlock()
	return slices.SortedFunc(maps.Values(a.k.by), func(x, y *weirv1.ApiKey) int { return strings.Compare(x.GetKeyId(), y.GetKeyId()) })
}

// SigningKeys is the current copy of control.keys.v1. Safe for concurrent use; returned messages are not to be changed.
type SigningKeys struct{ k keyed[*weirv1.SigningKey] }

// NewSigningKeys is an empty copy; feed it with Apply through bus.Follow.
func NewSigningKeys(bad Bad) *SigningKeys {
	return &SigningKeys{keyed[*weirv1.SigningKey]{bad: bad, mk: func() *weirv1.SigningKey { return new(weirv1.SigningKey) }, by: map[string]*weirv1.SigningKey{}}}
}

// Apply takes one record of control.keys.v1; it never fails.
func (s *SigningKeys) Apply(r bus.Record) error { return s.k.apply(r) }

// Get is a public key by its id.
func (s *SigningKeys) Get(keyID string) (*weirv1.SigningKey, bool) { return s.k.get(keyID) }
