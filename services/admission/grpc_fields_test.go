package admission

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"

	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/gen/admissionv1"
)

// Goal: HTTP and gRPC have the same members, so that nobody adds one to wire.go and forgets the other. Method: the names of
// each struct's JSON against those of its message, through all nested ones.
func TestSameMembers(t *testing.T) {
	for _, c := range []struct {
		wire    any
		message proto.Message
		only    []string // in the message alone: what HTTP has in its path or its status
	}{
		{executionRequest{}, &admissionv1.StartExecutionRequest{}, nil}, {executionAnswer{}, &admissionv1.StartExecutionResponse{}, nil},
		{closeRequest{}, &admissionv1.CloseExecutionRequest{}, []string{"root_execution_id"}}, {closeAnswer{}, &admissionv1.CloseExecutionResponse{}, nil},
		{reserveRequest{}, &admissionv1.ReserveRequest{}, nil}, {reserveAnswer{}, &admissionv1.ReserveResponse{}, []string{"replayed"}},
		{batchRequest{}, &admissionv1.ReserveBatchRequest{}, nil}, {batchResult{}, &admissionv1.BatchResult{}, []string{"reservation.replayed"}},
		{settleRequest{}, &admissionv1.SettleRequest{}, []string{"reservation_id"}}, {settleAnswer{}, &admissionv1.SettleResponse{}, nil},
		{releaseRequest{}, &admissionv1.ReleaseRequest{}, []string{"reservation_id"}}, {stateAnswer{}, &admissionv1.Reservation{}, nil},
		{extendRequest{}, &admissionv1.ExtendRequest{}, []string{"reservation_id"}}, {extendAnswer{}, &admissionv1.ExtendResponse{}, nil},
		{budgetAnswer{}, &admissionv1.GetBudgetResponse{}, nil}, {Problem{}, &admissionv1.Problem{}, nil},
	} {
		want := jsonNames(reflect.TypeOf(c.wire), "")
		for _, name := range c.only {
			want[name] = true
		}
		got := protoNames(c.message.ProtoReflect().Descriptor(), "", 0)
		if !maps.Equal(want, got) {
			t.Errorf("%T and %s differ; a member of wire.go belongs into schemas/weir/v1/admission.proto and grpc_*.go too:\n%v\n%v", c.wire, c.message.ProtoReflect().Descriptor().Name(), slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got)))
		}
	}
}

// jsonNames are the members of a struct's JSON, nested ones with a dot.
func jsonNames(t reflect.Type, prefix string) map[string]bool {
	out := map[string]bool{}
	for i := range t.NumField() {
		if !t.Field(i).IsExported() { // how another one came about
			continue
		}
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		out[prefix+name] = true
		inner := t.Field(i).Type
		for slices.Contains([]reflect.Kind{reflect.Pointer, reflect.Slice, reflect.Map}, inner.Kind()) {
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Struct && inner.PkgPath() == t.PkgPath() {
			maps.Copy(out, jsonNames(inner, prefix+name+"."))
		}
	}
	return out
}

func protoNames(d protoreflect.MessageDescriptor, prefix string, depth int) map[string]bool {
	out := map[string]bool{}
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		name := string(f.Name())
		out[prefix+name] = true
		inner := f.Message()
		if f.IsMap() {
			inner = f.MapValue().Message()
		}
		raw := name == "reservations" // whose JSON stays raw until each is decoded alone
		if inner != nil && inner.ParentFile().Package() == d.ParentFile().Package() && depth < 4 && !raw {
			maps.Copy(out, protoNames(inner, prefix+name+".", depth+1))
		}
	}
	return out
}

// Goal: gRPC takes as a quantity what JSON takes as a number.
func TestIsNumber(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.StringMatching(`-?[0-9]{0,3}(\.[0-9]{0,2})?([eE][+-]?[0-9]{0,2})?`), rapid.StringMatching(`[ \n0-9a-fx_.+-]{0,4}`), rapid.String()).Draw(t, "text")
		quoted, _ := json.Marshal(text)
		var n json.Number
		want := json.Unmarshal(quoted, &n) == nil && n != ""
		if got := isNumber(text); got != want {
			t.Fatalf("%q: %v, JSON says %v", text, got, want)
		}
	})
}

// Goal: one table has every code, once, and its gRPC code says by itself whether a retry makes sense.
func TestCodeTable(t *testing.T) {
	seen := map[admit.Code]bool{}
	for _, line := range codeTable() {
		if seen[line.code] || line.who == "" || line.when == "" || status(line.code) == 0 || title(line.code) == "" {
			t.Errorf("%s: twice, or not whole", line.code)
		}
		seen[line.code] = true
		retried := line.grpc.String() == "Unavailable" || line.grpc.String() == "ResourceExhausted"
		if retried != line.code.Retryable() {
			t.Errorf("%s: gRPC's %s says otherwise than Retry-After", line.code, line.grpc)
		}
	}
}
