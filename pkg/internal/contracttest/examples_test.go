package contracttest

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/gen/weirv1"
)

const schemas = "../../../schemas"

var update = flag.Bool("update", false, "rewrite the golden examples in their canonical form")

// example is one file: <Message>[.variant].json.
type example struct {
	name string
	raw  []byte
	kind protoreflect.MessageType
}

func loadExamples(t *testing.T) []example {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(schemas, "weir", "v1", "examples", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all []example
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		message, _, _ := strings.Cut(filepath.Base(file), ".")
		kind, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName("weir.v1." + message))
		if err != nil {
			t.Fatalf("%s: the name before the first dot must be a message of weir.v1: %v", file, err)
		}
		all = append(all, example{file, raw, kind})
	}
	return all
}

// TestExamples decodes each example strictly, encodes it again, and wants the same file; then the same through the
// wire format.
func TestExamples(t *testing.T) {
	t.Parallel()
	for _, e := range loadExamples(t) {
		t.Run(filepath.Base(e.name), func(t *testing.T) {
			t.Parallel()
			message := e.kind.New().Interface()
			if err := protojson.Unmarshal(e.raw, message); err != nil {
				t.Fatal(err)
			}
			canonical := encode(t, message)
			if *update {
				if err := os.WriteFile(e.name, canonical, 0o644); err != nil {
					t.Fatal(err)
				}
			} else if !bytes.Equal(canonical, e.raw) {
				t.Errorf("does not encode to itself: run `go test ./internal/contracttest -update` in pkg and read the diff; got\n%s", canonical)
			}
			wire, err := proto.MarshalOptions{Deterministic: true}.Marshal(message)
			if err != nil {
				t.Fatal(err)
			}
			back := e.kind.New().Interface()
			if err := proto.Unmarshal(wire, back); err != nil {
				t.Fatal(err)
			}
			if !proto.Equal(message, back) {
				t.Error("differs after a way through the wire format")
			}
			if unknown := back.ProtoReflect().GetUnknown(); len(unknown) > 0 {
				t.Errorf("%d bytes of unknown fields", len(unknown))
			}
		})
	}
}

// encode is protojson with field names as in the schema, and with white space that does not change between runs.
func encode(t *testing.T, message proto.Message) []byte {
	t.Helper()
	loose, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(message)
	if err != nil {
		t.Fatal(err)
	}
	var tight, pretty bytes.Buffer
	if err := json.Compact(&tight, loose); err != nil {
		t.Fatal(err)
	}
	if err := json.Indent(&pretty, tight.Bytes(), "", "  "); err != nil {
		t.Fatal(err)
	}
	pretty.WriteByte('\n')
	return pretty.Bytes()
}

// TestEveryFieldHasAnExample wants every field of every message set in some example: a field that no example shows is
// one that nobody has thought through.
func TestEveryFieldHasAnExample(t *testing.T) {
	t.Parallel()
	shown := map[protoreflect.FullName]bool{}
	for _, e := range loadExamples(t) {
		message := e.kind.New().Interface()
		if err := protojson.Unmarshal(e.raw, message); err != nil {
			t.Fatal(err)
		}
		mark(message.ProtoReflect(), shown)
	}
	eachMessage(func(message protoreflect.MessageDescriptor) {
		if message.IsMapEntry() {
			return
		}
		if !shown[message.FullName()] {
			t.Errorf("no example shows %s: add schemas/weir/v1/examples/%s.json", message.FullName(), message.Name())
			return
		}
		for i := range message.Fields().Len() {
			if field := message.Fields().Get(i); !shown[field.FullName()] {
				t.Errorf("no example sets %s", field.FullName())
			}
		}
	})
}

// mark records the messages and fields that are set in m.
func mark(m protoreflect.Message, shown map[protoreflect.FullName]bool) {
	shown[m.Descriptor().FullName()] = true
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		shown[field.FullName()] = true
		switch {
		case field.IsMap():
			value.Map().Range(func(_ protoreflect.MapKey, one protoreflect.Value) bool {
				if field.MapValue().Message() != nil {
					mark(one.Message(), shown)
				}
				return true
			})
		case field.Message() == nil:
		case field.IsList():
			for i := range value.List().Len() {
				mark(value.List().Get(i).Message(), shown)
			}
		default:
			mark(value.Message(), shown)
		}
		return true
	})
}

// eachMessage visits the messages of the internal topics.
func eachMessage(visit func(protoreflect.MessageDescriptor)) {
	for _, file := range weirFiles() {
		for i := range file.Messages().Len() {
			visit(file.Messages().Get(i))
		}
	}
}

func weirFiles() []protoreflect.FileDescriptor {
	return []protoreflect.FileDescriptor{
		weirv1.File_weir_v1_catalog_proto, weirv1.File_weir_v1_control_proto,
		weirv1.File_weir_v1_ledger_proto, weirv1.File_weir_v1_window_proto,
	}
}

// TestExamplesFitTheirTopics compares the size of each example on the wire with its topic's bound: an example that
// nears it would be no example.
func TestExamplesFitTheirTopics(t *testing.T) {
	t.Parallel()
	topicOf := map[string]bus.Topic{
		"LedgerEntry": topics.LedgerEntries, "WindowTotal": topics.BudgetWindows, "Decision": topics.AdmissionDecisions,
		"Revocation": topics.ExecutionsRevoked, "SigningKey": topics.ControlKeys, "ApiKey": topics.CatalogApikeys,
		"PriceHistory": topics.CatalogPrices, "TenantHistory": topics.CatalogTenants, "KillSwitch": topics.ControlKillswitch,
	}
	for _, e := range loadExamples(t) {
		topic, ok := topicOf[string(e.kind.Descriptor().Name())]
		if !ok {
			t.Errorf("%s is of a message that no topic carries", e.name)
			continue
		}
		message := e.kind.New().Interface()
		if err := protojson.Unmarshal(e.raw, message); err != nil {
			t.Fatal(err)
		}
		if size := proto.Size(message); size*10 > topic.MaxRecordBytes() {
			t.Errorf("%s takes %d bytes of %d", e.name, size, topic.MaxRecordBytes())
		}
	}
}
