package identity

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/weir-project/weir/pkg/gen/weirv1"
)

// Old keys are read from either half, and what is no such key, or the one that signs now, is refused.
func TestOldTokenKeys(t *testing.T) {
	newKey := func() (TokenKey, string, string) {
		t.Helper()
		k, err := NewTokenKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		private, err := k.PEM()
		if err != nil {
			t.Fatal(err)
		}
		der, err := x509.MarshalPKIXPublicKey(ed25519.PublicKey(k.Record().GetPublicKey()))
		if err != nil {
			t.Fatal(err)
		}
		return k, string(private), string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	}
	current, currentText, _ := newKey()
	a, aText, _ := newKey()
	b, _, bText := newKey()
	records, err := ParseOldTokenKeys([]byte("\n"+aText+"\n"+bText), current)
	if err != nil || len(records) != 2 || records[0].GetKeyId() != a.ID || records[1].GetKeyId() != b.ID {
		t.Fatalf("%v %v", records, err)
	}
	for _, r := range records {
		if r.GetNotAfter() != nil {
			t.Errorf("%v has an end", r)
		}
	}
	if records, err := ParseOldTokenKeys(nil, current); err != nil || len(records) != 0 {
		t.Errorf("none: %v %v", records, err)
	}
	for name, bad := range map[string]string{"the current key": aText + currentText, "no PEM": "hello", "more behind": aText + "hello",
		"another kind": strings.ReplaceAll(aText, "PRIVATE KEY", "CERTIFICATE"), "broken": strings.ReplaceAll(bText, "PUBLIC", "PRIVATE"), "too many": strings.Repeat(bText, 17)} {
		if _, err := ParseOldTokenKeys([]byte(bad), current); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}

	// A key that has ended verifies what it signed before its end, judged at that time, and nothing later: whoever finds
	// it then has no key.
	end := time.Unix(1_800_000_000, 0)
	records[0].NotAfter = timestamppb.New(end)
	lookup := func(id string) (*weirv1.SigningKey, bool) { return records[0], id == a.ID }
	token, err := a.SignExecutionToken(Execution{Tenant: "acme", Root: "r", ExpiresAt: end.Add(time.Hour)}, end.Add(-time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := VerifyExecutionToken(token, lookup, end.Add(-time.Second)); err != nil {
		t.Errorf("before its end: %v", err)
	}
	if _, err := VerifyExecutionToken(token, lookup, end); err == nil {
		t.Error("after its end")
	}
}
