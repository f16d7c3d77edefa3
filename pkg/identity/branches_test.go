package identity

import (
	"encoding/base64"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"pgregory.net/rapid"

	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/money"
)

// checkBranches holds a child against its parent: the chain of the parent, and one branch more exactly where it has less.
func checkBranches(t *rapid.T, parent, child Execution) {
	if n := len(parent.Branches); !slices.Equal(child.Branches[:n], parent.Branches) || (len(child.Branches) > n) != (child.MaxCost != parent.MaxCost) {
		t.Fatalf("%+v → %+v", parent, child)
	}
	own, began := child.OwnBranch(parent)
	if began && (own.MaxCost != child.MaxCost || own.MaxCost <= 0) {
		t.Fatalf("its branch is %+v of %+v", own, child)
	}
	for i, b := range child.Branches {
		if i > 0 && b.MaxCost >= child.Branches[i-1].MaxCost {
			t.Fatalf("a limit that does not fall: %+v", child.Branches)
		}
	}
}

// payloadOf is what a token says.
func payloadOf(t testing.TB, token string) []byte {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// deep is an agent above which the limit was lowered as often as it may be, all names as long as they may be.
func deep(t testing.TB) Execution {
	t.Helper()
	long := strings.Repeat("x", 128)
	e := Execution{Tenant: long, Root: long, Agent: long, CostCenter: long, MaxDepth: 1 << 20, ExpiresAt: epoch.Add(time.Hour)}
	for i := range admit.MaxBranches {
		var err error
		e, err = e.Child(long, "", 0, money.MaxNano-money.Nano(i), fmt.Sprintf("b_%020d", i), e.ExpiresAt)
		if err != nil {
			t.Fatal(err)
		}
	}
	return e
}

// Goal: the longest token that can be made is one that is taken; its limit cannot be lowered once more, but its children
// without a lower one go on; a token without branches says nothing of them.
func TestBranchesInTokens(t *testing.T) {
	key, e := tokenKey(t), deep(t)
	token, err := key.SignExecutionToken(e, epoch)
	if err != nil {
		t.Fatal(err)
	}
	got, err := VerifyExecutionToken(token, key.Only(), epoch)
	if got.ExpiresAt = e.ExpiresAt; err != nil || !reflect.DeepEqual(got, e) {
		t.Fatalf("%d bytes: %+v, %v", len(token), got, err)
	}
	if len(token) > maxToken*3/4 {
		t.Errorf("%d bytes, which is near the bound", len(token))
	}
	if _, err := e.Child("a", "", 0, 1, "b", e.ExpiresAt); !errors.Is(err, ErrTooManyLimits) {
		t.Errorf("once more: %v", err)
	}
	if child, err := e.Child("a", "", 0, money.MaxNano, "b", e.ExpiresAt); err != nil || len(child.Branches) != admit.MaxBranches || child.MaxCost != e.MaxCost {
		t.Errorf("no lower one: %+v, %v", child, err)
	}
	plain := sampleExecution()
	old, err := key.SignExecutionToken(plain, epoch)
	if err != nil || strings.Contains(string(payloadOf(t, old)), "branches") {
		t.Errorf("%s, %v", payloadOf(t, old), err)
	}
	if plain.RootMaxCost() != plain.MaxCost || e.RootMaxCost() != 0 {
		t.Errorf("the root's limit: %d, %d", plain.RootMaxCost(), e.RootMaxCost())
	}
	one, _ := plain.Child("a", "", 0, 1, "b1", plain.ExpiresAt)
	two, _ := one.Child("a", "", 0, 0, "b2", plain.ExpiresAt)
	sibling, _ := plain.Child("a", "", 0, 2, "b3", plain.ExpiresAt)
	if len(plain.Branches) != 0 || one.Branches[0].ID != "b1" || !slices.Equal(two.Branches, one.Branches) || sibling.Branches[0].ID != "b3" {
		t.Errorf("%v, %v, %v", one.Branches, two.Branches, sibling.Branches)
	}
}

// Goal: a chain that admission did not sign, or would not, is no chain. Method: one row an attack.
func TestBranchAttacks(t *testing.T) {
	key := tokenKey(t)
	child, err := sampleExecution().Child("a", "", 0, money.Nano(1_000_000_000), "b_1", epoch.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	good, err := key.SignExecutionToken(child, epoch)
	if err != nil {
		t.Fatal(err)
	}
	signed := func(branches any) string {
		return signJWT(t, jwt.SigningMethodEdDSA, key.private, key.ID, jwt.MapClaims{"iss": tokenIssuer, "aud": tokenAudience, "tenant": "acme", "root": "r",
			"depth": 1, "exp": epoch.Add(time.Hour).Unix(), "branches": branches}, "typ", tokenType)
	}
	type claim = map[string]any
	one := claim{"id": "b", "max_cost_usd": "1"}
	if e, err := VerifyExecutionToken(signed([]claim{one}), key.Only(), epoch); err != nil || len(e.Branches) != 1 {
		t.Fatalf("the base of the table: %+v, %v", e, err)
	}
	many := make([]claim, admit.MaxBranches+1)
	for i := range many {
		many[i] = claim{"id": fmt.Sprint(i), "max_cost_usd": "1"}
	}
	for name, token := range map[string]string{
		"a higher limit":   repayload(good, `{"id":"b_1","max_cost_usd":"1"}`, `{"id":"b_1","max_cost_usd":"9"}`),
		"another branch":   repayload(good, `"b_1"`, `"b_2"`),
		"none any more":    repayload(good, `"branches":[{"id":"b_1","max_cost_usd":"1"}]`, `"branches":[]`),
		"member cut out":   repayload(good, `"branches":[{"id":"b_1","max_cost_usd":"1"}],`, ``),
		"no limit":         signed([]claim{{"id": "b"}}),
		"a limit of zero":  signed([]claim{{"id": "b", "max_cost_usd": "0"}}),
		"below zero":       signed([]claim{{"id": "b", "max_cost_usd": "-1"}}),
		"no amount":        signed([]claim{{"id": "b", "max_cost_usd": "all"}}),
		"beyond a counter": signed([]claim{{"id": "b", "max_cost_usd": "9007199.254740992"}}),
		"no id":            signed([]claim{{"max_cost_usd": "1"}}),
		"a long id":        signed([]claim{{"id": strings.Repeat("b", 129), "max_cost_usd": "1"}}),
		"twice":            signed([]claim{one, one}),
		"too many":         signed(many),
		"no list":          signed("b"),
	} {
		if e, err := VerifyExecutionToken(token, key.Only(), epoch); !errors.Is(err, ErrUnauthenticated) || !reflect.DeepEqual(e, Execution{}) {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
	}
}
