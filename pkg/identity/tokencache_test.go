package identity

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/weir-project/weir/pkg/gen/weirv1"
)

// Goal: a token that was good once is judged as any other by all that can change: its expiry and its key.
func TestTokenCache(t *testing.T) {
	key := tokenKey(t)
	token, err := key.SignExecutionToken(sampleExecution(), epoch)
	if err != nil {
		t.Fatal(err)
	}
	published, lookups, record := true, 0, key.Record()
	cache := NewTokenCache(func(id string) (*weirv1.SigningKey, bool) {
		lookups++
		return record, published && id == key.ID
	})
	want, err := VerifyExecutionToken(token, key.Only(), epoch)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if got, err := cache.Verify(token, epoch); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if len(cache.recent) != 1 || lookups != 3 {
		t.Errorf("%d remembered after %d lookups", len(cache.recent), lookups)
	}
	if _, err := cache.Verify(token, want.ExpiresAt); !errors.Is(err, ErrUnauthenticated) {
		t.Errorf("expired: %v", err)
	}
	published = false
	if _, err := cache.Verify(token, epoch); !errors.Is(err, ErrUnauthenticated) {
		t.Errorf("its key was withdrawn: %v", err)
	}
	published = true
	if _, err := cache.Verify(token, epoch); err != nil {
		t.Errorf("its key is back: %v", err)
	}
	record = tokenKey(t).Record() // under the old id: nobody's key
	if _, err := cache.Verify(token, epoch); !errors.Is(err, ErrUnauthenticated) {
		t.Errorf("its key is another one: %v", err)
	}
	record = key.Record()
	record.NotAfter = timestamppb.New(epoch)
	if _, err := cache.Verify(token, epoch); !errors.Is(err, ErrUnauthenticated) {
		t.Errorf("its key has ended: %v", err)
	}
}

// Goal: bad tokens are never remembered, and altered ones never found.
func TestTokenCacheKeepsNoBadToken(t *testing.T) {
	key := tokenKey(t)
	token, _ := key.SignExecutionToken(sampleExecution(), epoch)
	cache := NewTokenCache(key.Only())
	if _, err := cache.Verify(token, epoch); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"", token + "A", token[:len(token)-1], repayload(token, `"acme"`, `"evil"`), string(make([]byte, maxToken+1))} {
		if _, err := cache.Verify(bad, epoch); !errors.Is(err, ErrUnauthenticated) {
			t.Errorf("%.40q: %v", bad, err)
		}
	}
	if len(cache.recent) != 1 {
		t.Errorf("%d are remembered", len(cache.recent))
	}
}

// Goal: the cache is bounded, and what it has forgotten is verified again.
func TestTokenCacheIsBounded(t *testing.T) {
	cache := NewTokenCache(nil)
	for i := range 3 * maxRemembered {
		cache.remember(tokenSum{byte(i), byte(i >> 8), byte(i >> 16)}, verified{})
		if n := len(cache.recent) + len(cache.older); n > 2*maxRemembered {
			t.Fatalf("%d are remembered", n)
		}
	}
	if _, ok := cache.find(tokenSum{}); ok {
		t.Error("the first is remembered for ever")
	}
}

func BenchmarkExecutionToken(b *testing.B) {
	key := tokenKey(b)
	token, _ := key.SignExecutionToken(sampleExecution(), epoch)
	record := key.Record()
	cache := NewTokenCache(func(string) (*weirv1.SigningKey, bool) { return record, true })
	for name, verify := range map[string]func(string, time.Time) (Execution, error){
		"cached": cache.Verify,
		"whole":  func(s string, at time.Time) (Execution, error) { return VerifyExecutionToken(s, key.Only(), at) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := verify(token, epoch); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkSignReceipt(b *testing.B) {
	secret, r := secretOf(b, 's'), sampleReceipt()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := SignReceipt(secret, r); err != nil {
			b.Fatal(err)
		}
	}
}
