package admission

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/weir-project/weir/pkg/gen/admissionv1"
)

// Texts are Unicode. encoding/json puts U+FFFD where bytes are no UTF-8, and where an escape is half of a character, and goes on:
// the event would say something else than its sender did, and two different ids could become one.

// notText is what is said of such a text.
const notText = "is not valid UTF-8, or has half of a character as an escape"

// checkText refuses a body with such a text in it, and names the member.
func checkText(body string) *Problem {
	if wellFormed(body) || !json.Valid([]byte(body)) { // what is no JSON is refused for that
		return nil
	}
	field := ""
	_ = eachMember(body, func(name string, _ bool, raw json.RawMessage) error { // of what is no object, no member is named
		if field == "" && !wellFormed(string(raw)) {
			field = name
		}
		return nil
	})
	if field == "" || !utf8.ValidString(field) {
		return invalid("", "The body "+notText+".")
	}
	return invalid(field, fmt.Sprintf("%s %s.", field, notText))
}

func wellFormed(text string) bool {
	return utf8.ValidString(text) && (!strings.Contains(text, `\u`) || !halfEscaped(text))
}

// halfEscaped reports whether JSON has an escape of one half of a surrogate pair without the other.
func halfEscaped(text string) bool {
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		unit, ok := escaped(text[i:])
		switch {
		case !ok:
			i++ // another escape: its letter, which may be a backslash
		case utf16.IsSurrogate(unit):
			second, ok := escaped(text[i+6:])
			if !ok || utf16.DecodeRune(unit, second) == utf8.RuneError {
				return true
			}
			i += 11
		default:
			i += 5
		}
	}
	return false
}

// escaped reads an escape of four hexadecimal digits at the start of a text.
func escaped(text string) (rune, bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	unit, err := strconv.ParseUint(text[2:6], 16, 16)
	return rune(unit), err == nil
}

// lenient is Protobuf's codec, but that a message of the API which does not decode, as one with a text that is no UTF-8 does not, comes
// to the call all the same, marked: it is to be refused there as HTTP refuses such a body. grpc-go would take it for a defect
// of the server (INTERNAL), before anybody was identified.
type lenient struct{ encoding.CodecV2 }

// Unmarshal reads a message, or marks it.
func (l lenient) Unmarshal(data mem.BufferSlice, v any) error {
	err := l.CodecV2.Unmarshal(data, v)
	m, ok := v.(proto.Message)
	if err == nil || !ok || m.ProtoReflect().Descriptor().ParentFile() != admissionv1.File_weir_v1_admission_proto {
		return err
	}
	proto.Reset(m)
	m.ProtoReflect().SetUnknown(unreadable())
	return nil
}

// unreadable is the mark: a field that no message has.
func unreadable() protoreflect.RawFields {
	return protowire.AppendVarint(protowire.AppendTag(nil, protowire.MaxValidNumber, protowire.VarintType), 1)
}
