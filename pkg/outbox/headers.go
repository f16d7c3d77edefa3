package outbox

import (
	"fmt"
	"unicode/utf8"

	"github.com/weir-project/weir/pkg/jsonwrite"
)

// The headers that have a column each (migrations/postgres/0009_outbox_header_columns): nearly every event has both, and none
// else.
const (
	contentTypeHeader = "content-type"
	signatureHeader   = "weir-signature"
)

// header are the headers of an event as the table takes them.
type header struct {
	contentType, signature string // "" = none
	others                 int    // how many have no column
}

// checkHeaders is Check for the headers.
func (e *Event) checkHeaders() error {
	if _, ok := e.Headers["id"]; ok {
		return fmt.Errorf(`outbox: event %s: header "id" is set from ID`, e.ID)
	}
	if _, ok := e.Headers[""]; ok {
		return fmt.Errorf("outbox: event %s: a header without a name", e.ID)
	}
	h := e.split()
	if size := max(len(h.contentType), len(h.signature)); size > MaxName {
		return fmt.Errorf("%w: a header of %s has %d bytes of %d", ErrTooLarge, e.ID, size, MaxName)
	}
	if h.others == 0 {
		return nil
	}
	// Postgres puts a space after each colon and each comma.
	if size := len(e.appendOthers(nil)) + 2*h.others - 1; size > MaxHeaders {
		return fmt.Errorf("%w: the headers of %s have %d bytes of %d", ErrTooLarge, e.ID, size, MaxHeaders)
	}
	return nil
}

func (e *Event) split() header {
	h := header{contentType: e.column(contentTypeHeader), signature: e.column(signatureHeader)}
	h.others = len(e.Headers)
	for _, v := range [...]string{h.contentType, h.signature} {
		if v != "" {
			h.others--
		}
	}
	return h
}

// column is the value of a header in its column. What a column would refuse, or take for none, is one of the others.
func (e *Event) column(name string) string {
	if v := e.Headers[name]; utf8.ValidString(v) {
		return v
	}
	return ""
}

// appendOthers appends those without a column, as a JSON object.
func (e *Event) appendOthers(b []byte) []byte {
	b = append(b, '{')
	separator := ""
	for name, value := range e.Headers {
		if (name == contentTypeHeader || name == signatureHeader) && e.column(name) != "" {
			continue
		}
		b = jsonwrite.AppendString(append(b, separator...), name)
		b = jsonwrite.AppendString(append(b, ':'), value)
		separator = ","
	}
	return append(b, '}')
}

// joined are all headers of a row. A column goes before a header of its name.
func joined(others map[string]string, contentType, signature *string) map[string]string {
	for name, value := range map[string]*string{contentTypeHeader: contentType, signatureHeader: signature} {
		if value == nil {
			continue
		}
		if others == nil {
			others = map[string]string{}
		}
		others[name] = *value
	}
	return others
}
