package contracttest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// TestBaseline compares the generated descriptors with the accepted baseline: whatever a reader of yesterday relies on
// is still there. `buf breaking` checks more when code is generated; this one runs on every `go test`, without tools.
func TestBaseline(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(filepath.Join(schemas, "baseline.binpb"))
	if err != nil {
		t.Fatal(err)
	}
	// A buf image is a FileDescriptorSet with extra fields, which are ignored here.
	var old descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(raw, &old); err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, file := range weirFiles() {
		for _, was := range old.GetFile() {
			if was.GetName() == file.Path() {
				compared++
				for _, problem := range breaks(was, protodesc.ToFileDescriptorProto(file)) {
					t.Errorf("%s: %s", file.Path(), problem)
				}
			}
		}
	}
	if compared != len(weirFiles()) {
		t.Errorf("the baseline holds %d of %d files: run `make gen`", compared, len(weirFiles()))
	}
}

// breaks lists what old readers or writers would no longer find in now.
func breaks(old, now *descriptorpb.FileDescriptorProto) []string {
	var problems []string
	messages := map[string]*descriptorpb.DescriptorProto{}
	for _, message := range now.GetMessageType() {
		messages[message.GetName()] = message
	}
	for _, was := range old.GetMessageType() {
		is, ok := messages[was.GetName()]
		if !ok {
			problems = append(problems, was.GetName()+" is gone")
			continue
		}
		problems = append(problems, brokenFields(was, is)...)
	}
	values := map[string]int32{}
	for _, enum := range now.GetEnumType() {
		for _, value := range enum.GetValue() {
			values[value.GetName()] = value.GetNumber()
		}
	}
	for _, enum := range old.GetEnumType() {
		for _, was := range enum.GetValue() {
			if number, ok := values[was.GetName()]; !ok || number != was.GetNumber() {
				problems = append(problems, fmt.Sprintf("enum value %s = %d is gone or has another number", was.GetName(), was.GetNumber()))
			}
		}
	}
	return problems
}

func brokenFields(was, is *descriptorpb.DescriptorProto) []string {
	var problems []string
	fields := map[int32]*descriptorpb.FieldDescriptorProto{}
	for _, field := range is.GetField() {
		fields[field.GetNumber()] = field
	}
	for _, old := range was.GetField() {
		place := fmt.Sprintf("%s.%s = %d", was.GetName(), old.GetName(), old.GetNumber())
		now, ok := fields[old.GetNumber()]
		switch {
		case !ok:
			problems = append(problems, place+" is gone")
		case now.GetName() != old.GetName():
			problems = append(problems, place+" is now called "+now.GetName())
		case now.GetType() != old.GetType() || now.GetTypeName() != old.GetTypeName() || now.GetLabel() != old.GetLabel() || now.GetProto3Optional() != old.GetProto3Optional():
			problems = append(problems, place+" has another type")
		}
	}
	return problems
}

// TestBreaks shows that each kind of incompatible change is found, and that an addition is not.
func TestBreaks(t *testing.T) {
	t.Parallel()
	base := func() *descriptorpb.FileDescriptorProto {
		return protodesc.ToFileDescriptorProto(weirFiles()[2]) // ledger.proto
	}
	for _, c := range []struct {
		name   string
		change func(*descriptorpb.FileDescriptorProto)
		want   string
	}{
		{"nothing", func(*descriptorpb.FileDescriptorProto) {}, ""},
		{"message gone", func(f *descriptorpb.FileDescriptorProto) { f.MessageType = f.MessageType[1:] }, "EpochMarker is gone"},
		{"field gone", func(f *descriptorpb.FileDescriptorProto) { f.MessageType[0].Field = f.MessageType[0].Field[1:] }, "EpochMarker.epoch = 1 is gone"},
		{"renamed", func(f *descriptorpb.FileDescriptorProto) { f.MessageType[0].Field[0].Name = proto.String("gauge") }, "is now called gauge"},
		{"renumbered", func(f *descriptorpb.FileDescriptorProto) { f.MessageType[0].Field[0].Number = proto.Int32(99) }, "EpochMarker.epoch = 1 is gone"},
		{"retyped", func(f *descriptorpb.FileDescriptorProto) {
			f.MessageType[0].Field[0].Type = descriptorpb.FieldDescriptorProto_TYPE_BYTES.Enum()
		}, "has another type"},
		{"enum value renumbered", func(f *descriptorpb.FileDescriptorProto) { f.EnumType[0].Value[1].Number = proto.Int32(77) }, "has another number"},
		{"added", func(f *descriptorpb.FileDescriptorProto) {
			f.MessageType[0].Field = append(f.MessageType[0].Field, &descriptorpb.FieldDescriptorProto{
				Name: proto.String("new"), Number: proto.Int32(50), Type: descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(),
			})
		}, ""},
	} {
		now := base()
		c.change(now)
		got := strings.Join(breaks(base(), now), "\n")
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

// TestOldReadersSkipNewFields holds the deployment rule that consumers tolerate what they do not know.
func TestOldReadersSkipNewFields(t *testing.T) {
	t.Parallel()
	eachMessage(func(descriptor protoreflect.MessageDescriptor) {
		for _, e := range loadExamples(t) {
			if e.kind.Descriptor().FullName() != descriptor.FullName() {
				continue
			}
			message := e.kind.New()
			// Field 18999, a string "new": tag (18999<<3 | 2) as a varint, length, bytes.
			if err := proto.Unmarshal([]byte{0xba, 0xa3, 0x09, 3, 'n', 'e', 'w'}, message.Interface()); err != nil {
				t.Errorf("%s refuses a field it does not know: %v", descriptor.FullName(), err)
			}
		}
	})
}
