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

// keyed is the current copy of a compacted topic whose values are one message type each. Safe for concurrent use; returned
// messages are not to be changed.
type keyed[T any, M interface {
	*T
	proto.Message
}] struct {
	bad Bad
	mu  sync.RWMutex
	by  map[string]M
}

// Apply takes one record of the topic; it never fails.
func (k *keyed[T, M]) Apply(r bus.Record) error {
	id := string(r.Key)
	if r.Value == nil {
		k.mu.Lock()
		delete(k.by, id)
		k.mu.Unlock()
		return nil
	}
	m := M(new(T))
	if err := proto.Unmarshal(r.Value, m); err != nil {
		k.bad(r.Topic.Name(), id, fmt.Errorf("decode: %w", err))
		return nil
	}
	k.mu.Lock()
	k.by[id] = m
	k.mu.Unlock()
	return nil
}

// Get is a key by its id, also one that was revoked or has ended.
func (k *keyed[T, M]) Get(id string) (M, bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	m, ok := k.by[id]
	return m, ok
}

// APIKeys is the current copy of catalog.apikeys.v1.
type APIKeys struct {
	keyed[weirv1.ApiKey, *weirv1.ApiKey]
}

// NewAPIKeys is an empty copy; feed it with Apply through bus.Follow.
func NewAPIKeys(bad Bad) *APIKeys {
	a := &APIKeys{}
	a.bad, a.by = bad, map[string]*weirv1.ApiKey{}
	return a
}

// List is every key by its id, revoked ones too.
func (a *APIKeys) List() []*weirv1.ApiKey {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return slices.SortedFunc(maps.Values(a.by), func(x, y *weirv1.ApiKey) int { return strings.Compare(x.GetKeyId(), y.GetKeyId()) })
}

// SigningKeys is the current copy of control.keys.v1.
type SigningKeys struct {
	keyed[weirv1.SigningKey, *weirv1.SigningKey]
}

// NewSigningKeys is an empty copy; feed it with Apply through bus.Follow.
func NewSigningKeys(bad Bad) *SigningKeys {
	s := &SigningKeys{}
	s.bad, s.by = bad, map[string]*weirv1.SigningKey{}
	return s
}
