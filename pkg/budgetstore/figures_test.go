package budgetstore

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/ladder"
	"github.com/weir-project/weir/pkg/domain/window"
)

func TestFigures(t *testing.T) {
	f := &figures{b: packed([]byte{7}, -1, 1<<53-1, 0, 5)}
	if f.byte() != 7 || f.int() != -1 || f.nano() != 1<<53-1 || !f.time().IsZero() || f.time().UnixMicro() != 5 || f.err("x") != nil {
		t.Error("figures do not come back")
	}
	if f.int() != 0 || !errors.Is(f.err("x"), ErrUnavailable) {
		t.Error("a short reply is not an error")
	}
}

func TestDoubles(t *testing.T) {
	for n, want := range map[int64]uint64{0: 0, 1: 0x3ff0_0000_0000_0000, -2: 0xc000_0000_0000_0000, 3: 0x4008_0000_0000_0000,
		1<<53 - 1: 0x433f_ffff_ffff_ffff, 1 << 53: 0x4340_0000_0000_0000, -(1<<53 - 1): 0xc33f_ffff_ffff_ffff, 1 << 60: 0x4340_0000_0000_0000,
		math.MinInt64: 0xc340_0000_0000_0000} {
		if got := toDouble(n); got != want {
			t.Errorf("%d is %x, want %x", n, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(-1<<53, 1<<53).Draw(t, "n")
		if got := fromDouble(toDouble(n)); got != n {
			t.Errorf("%d comes back as %d", n, got)
		}
	})
	for bits, want := range map[uint64]int64{0x3fe0_0000_0000_0000: 0, 0xc004_0000_0000_0000: -2, 0x7ff8_0000_0000_0000: 1 << 53} {
		if got := fromDouble(bits); got != want {
			t.Errorf("%x is %d, want %d", bits, got, want)
		}
	}
}

// FuzzHold: whatever bytes Redis answers with, reading them ends in figures or an error.
func FuzzHold(f *testing.F) {
	f.Add([]byte{})
	f.Add(make([]byte, nowSize))
	r := Request{Execution: admit.Execution{Root: "ab"}, Limits: admit.Limits{Minute: admit.NoCeiling()}, Context: []byte("c")}
	f.Add(append(make([]byte, nowSize), r.kept()...))
	r.Saving, r.Scopes = &admit.Estimate{Nanos: 1}, []ScopeLimit{{Kind: window.Agent, ID: "a"}}
	f.Add(append(make([]byte, nowSize), r.kept()...))
	f.Fuzz(func(t *testing.T, b []byte) {
		figs := &figures{b: b}
		h := figs.hold("id")
		if figs.err("hold") == nil && nowSize+32+16+1+len(h.Root)+len(h.Context)+12 > len(b) {
			t.Errorf("%d bytes read as root %q and context %q", len(b), h.Root, h.Context)
		}
	})
}

// What a hold keeps comes back, with either price, with sub-scopes and without.
func TestHoldComesBack(t *testing.T) {
	r := Request{ID: "r", Estimate: admit.Estimate{Nanos: 50, InputTokens: 5, OutputTokens: 6}, Execution: admit.Execution{Root: "root", Depth: 2},
		Limits: admit.Limits{Concurrency: 3, Day: admit.Hard(1000)}, Lease: time.Minute, Context: []byte("context")}
	saving := admit.Estimate{Nanos: 20, InputTokens: 5, OutputTokens: 4}
	for _, told := range []byte{0, 2 | 1<<3 | 64} {
		if told != 0 {
			r.Saving = &saving
			r.Scopes = []ScopeLimit{{Kind: window.Agent, ID: "a"}, {Kind: window.APIKey, ID: "k"}}
		}
		state := make([]byte, nowSize)
		state[84] = told
		f := &figures{b: append(state, r.kept()...)}
		h := f.hold("r")
		if err := f.err("hold"); err != nil || h.Root != "root" || string(h.Context) != "context" || len(h.Scopes) != len(r.Scopes) {
			t.Fatalf("%+v, %v", h, err)
		}
		want := r.Estimate
		if told != 0 {
			want = saving
		}
		if a := h.Answer; a.Reserved != want || a.Saving != (told != 0) || a.Rung != ladder.Rung(told&7) || a.RungBefore != ladder.Rung(told>>3&7) ||
			a.Execution.Depth != 2 || a.DayCeiling != 1000 {
			t.Errorf("%+v", a)
		}
		for i, scope := range h.Scopes {
			if scope.Kind != r.Scopes[i].Kind || scope.ID != r.Scopes[i].ID {
				t.Errorf("sub-scope %d is %+v", i, scope)
			}
		}
	}
}

func TestRequestIsChecked(t *testing.T) {
	good := Request{Tenant: Tenant{ID: "t"}, ID: "r", Lease: 1, Limits: admit.Limits{Concurrency: 1}}
	if err := good.validate(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*Request){
		"tenant": func(r *Request) { r.Tenant.ID = "" }, "hash tag": func(r *Request) { r.Tenant.ID = "a}b" },
		"long id": func(r *Request) { r.ID = strings.Repeat("x", 129) }, "root": func(r *Request) { r.Execution.Root = "{" },
		"context": func(r *Request) { r.Context = make([]byte, MaxContext+1) }, "lease": func(r *Request) { r.Lease = 0 },
		"depth": func(r *Request) { r.Execution.Depth = -1 }, "estimate": func(r *Request) { r.Estimate.Nanos = -1 },
		"limits": func(r *Request) { r.Limits.Concurrency = 0 }, "saving": func(r *Request) { r.Saving = &admit.Estimate{Nanos: -1} },
		"effect": func(r *Request) { r.Effect = 2 }, "sub-scope": func(r *Request) { r.Scopes = []ScopeLimit{{Kind: window.Agent, ID: "{"}} },
	} {
		r := good
		spoil(&r)
		if err := r.validate(); !errors.Is(err, admit.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if code := len(good.packed(time.Hour)); code != requestSize {
		t.Errorf("the script unpacks %d bytes, the request has %d", requestSize, code)
	}
}

// All keys of one tenant hash to one slot of a cluster (field report 41).
func TestKeysShareATag(t *testing.T) {
	s := &Store{}
	keys, _ := s.reserveCall(&Request{Tenant: Tenant{ID: "acme"}, ID: "r", Execution: admit.Execution{Root: "x"}})
	for _, k := range keys {
		if !strings.HasPrefix(k, "w:{acme}:") {
			t.Errorf("key %s", k)
		}
	}
}

func TestScriptsLoad(t *testing.T) {
	if _, err := loadScripts(); err != nil {
		t.Fatal(err)
	}
}
