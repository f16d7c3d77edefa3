package admission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/gen/admissionv1"
)

// notTexts are what no text may hold, as JSON has it between quotes.
func notTexts() []string {
	return []string{"a\xffb", "\xc3", "\xed\xa0\x80", `\ud800`, `\ud83dx`, `\ude00`, `\ud83d\u0061`, `\\\udc00`}
}

// Goal: no member of any request takes bytes that are no text: they would be changed in silence. Method: each member that is
// text, of each request, by its JSON name.
func TestTextsAreUnicode(t *testing.T) {
	for _, into := range []any{&executionRequest{}, &reserveRequest{}, &settleRequest{}, &releaseRequest{}, &extendRequest{}} {
		of := reflect.TypeOf(into).Elem()
		for i := range of.NumField() {
			field := of.Field(i)
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			value := `"%s"`
			switch {
			case field.Type == reflect.TypeFor[json.RawMessage]():
				value = `{"a":"%s"}`
			case field.Type.Kind() != reflect.String:
				continue
			}
			for _, bad := range notTexts() {
				body := fmt.Sprintf(`{"%s":`+value+`}`, name, bad)
				if p := decodeStrict([]byte(body), reflect.New(of).Interface()); p == nil || p.Code != "invalid_argument" || p.Field != name {
					t.Errorf("%s %q: %+v", of.Name(), body, p)
				}
			}
		}
	}
	for _, good := range []string{"é", `\u00e9`, `\ud83d\ude00`, `\\ud800`, `\\\\ud800`, `\"\u0061`} {
		var req settleRequest
		if p := decodeStrict([]byte(`{"error_code":"`+good+`"}`), &req); p != nil || req.ErrorCode == "" {
			t.Errorf("%s: %+v", good, p)
		}
	}
	if p := decodeStrict([]byte("{\"a\xff\":1}"), &settleRequest{}); p == nil || p.Field != "" {
		t.Errorf("a name: %+v", p)
	}
	if _, p := settleRequestOf(&admissionv1.SettleRequest{Usage: []byte("{\"a\":\"\xff\"}")}); p == nil || p.Field != "usage" {
		t.Errorf("usage over gRPC: %+v", p)
	}
}

// Goal: one rule for a limit, which refuses what it would have to round, in HTTP and gRPC alike.
func TestLimitsAreNotRounded(t *testing.T) {
	for text, good := range map[string]bool{"0.000000001": true, "9007199.254740991": true, "1e-9": true, "1.50": true, "0.0000000001": false, "1.0000000005": false,
		"9007199.254740992": false, "1e10": false, "0": false, "-1": false, "1e99": false, "x": false, "+1": false, "+1e-9": false, "1e+1": true, "": false} {
		var req executionRequest
		web := decodeStrict([]byte(`{"max_cost_usd":"`+text+`"}`), &req)
		if web == nil {
			_, web = costLimit(req.MaxCostUSD)
		}
		over, rpc := executionRequestOf(&admissionv1.StartExecutionRequest{MaxCostUsd: proto.String(text)})
		if rpc == nil {
			_, rpc = costLimit(over.MaxCostUSD)
		}
		if (web == nil) != good || (rpc == nil) != good || !good && (web.Detail != notLimit || rpc.Detail != notLimit || web.Field != "max_cost_usd" || rpc.Field != web.Field) {
			t.Errorf("%s: %+v over HTTP, %+v over gRPC", text, web, rpc)
		}
	}
	if !strings.Contains(limitRule, "at most "+money.MaxNano.USD().String()) {
		t.Errorf("the rule says another bound than %s: %s", money.MaxNano.USD(), limitRule)
	}
}

// Goal: what OpenAPI says a limit looks like is what is read, and nothing else. Method: texts of the characters that numbers have.
func TestLimitsAreAsDescribed(t *testing.T) {
	pattern := regexp.MustCompile(limitPattern)
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[+-]?[0-9]{0,3}(\.[0-9]{0,3})?([eE][+-]?[0-9]{0,2})?`).Draw(t, "text")
		_, err := money.ParseUSD(text)
		if read := !errors.Is(err, money.ErrSyntax) && !strings.HasPrefix(text, "-"); read != pattern.MatchString(text) {
			t.Errorf("%q: read %t, described %t", text, read, !read)
		}
	})
}

// Goal: an empty token is told from none over gRPC too.
func TestEmptyTokensOverGRPC(t *testing.T) {
	if _, p := executionRequestOf(&admissionv1.StartExecutionRequest{ParentToken: proto.String("")}); p == nil || p.Field != "parent_token" {
		t.Errorf("%+v", p)
	}
	if _, p := reserveRequestOf(&admissionv1.ReserveRequest{ExecutionToken: proto.String("")}); p == nil || p.Field != "execution_token" {
		t.Errorf("%+v", p)
	}
	if _, p := reserveRequestOf(&admissionv1.ReserveRequest{}); p != nil {
		t.Errorf("none: %+v", p)
	}
}

// Goal: an empty receipt is a mistake of its sender, over HTTP and gRPC, and none is none.
func TestEmptyReceipts(t *testing.T) {
	empty, none := proto.String(""), (*string)(nil)
	overGRPC := func(receipt *string) map[string]*Problem {
		_, settle := settleRequestOf(&admissionv1.SettleRequest{Receipt: receipt})
		_, release := releaseRequestOf(&admissionv1.ReleaseRequest{Receipt: receipt})
		_, extend := extendRequestOf(&admissionv1.ExtendRequest{Receipt: receipt})
		return map[string]*Problem{"settle": settle, "release": release, "extend": extend}
	}
	for call, p := range overGRPC(empty) {
		if p == nil || p.Field != "receipt" {
			t.Errorf("%s over gRPC: %+v", call, p)
		}
	}
	for call, p := range overGRPC(none) {
		if p != nil {
			t.Errorf("%s over gRPC without one: %+v", call, p)
		}
	}
	for body, good := range map[string]bool{`{"receipt":""}`: false, `{"receipt":null}`: true, `{}`: true, `{"receipt":"a.b"}`: true} {
		for _, into := range []any{&settleRequest{}, &releaseRequest{}, &extendRequest{}} {
			if p := decodeStrict([]byte(body), into); (p == nil) != good || p != nil && p.Field != "receipt" {
				t.Errorf("%s as %T: %+v", body, into, p)
			}
		}
	}
}

// asBytes is a codec of a client that sends what it likes.
type asBytes struct{}

func (asBytes) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }
func (asBytes) Unmarshal([]byte, any) error   { return nil }
func (asBytes) Name() string                  { return "proto" }

// Goal: a message with a text that is no UTF-8, or that is no message, is a mistake of its sender and not of the server, with the same
// details as any other.
func TestUnreadableMessagesOverGRPC(t *testing.T) {
	r := newReserveBench(t, false)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := r.service.newGRPC(t.Context(), health.NewServer(), nil)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.ForceCodec(asBytes{})))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	good, err := proto.Marshal(&admissionv1.SettleRequest{ReservationId: "r1", ResponseId: "abc"})
	if err != nil {
		t.Fatal(err)
	}
	for _, raw := range []string{strings.Replace(string(good), "abc", "a\xffc", 1), "\xff\xff"} {
		in, out := []byte(raw), []byte(nil)
		ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(t.Context(), "authorization", r.authorization), time.Minute)
		err := conn.Invoke(ctx, admissionv1.Admission_Settle_FullMethodName, &in, &out)
		cancel()
		st := grpcstatus.Convert(err)
		problems := 0
		for _, d := range st.Details() {
			if p, ok := d.(*admissionv1.Problem); ok && p.GetCode() == "invalid_argument" && p.GetStatus() == 400 {
				problems++
			}
		}
		if st.Code() != codes.InvalidArgument || problems != 1 {
			t.Errorf("%q: %v", raw, err)
		}
	}
}
