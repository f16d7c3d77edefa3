// Package jsonwrite appends JSON objects member by member, to the byte as encoding/json writes them, without reflection:
// for the few objects that every request writes, where that costs more than what is decided.
//
// It owns the syntax. The order of members and which of them are left out are the caller's, who tests against
// encoding/json.
package jsonwrite

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/weir-project/weir/pkg/domain/money"
)

// Object is one JSON object on its way. The zero value is not usable: begin with New.
type Object struct{ buf []byte }

// New begins an object after what b holds already.
func New(b []byte) Object { return Object{buf: append(b, '{')} }

// End closes the object and returns everything that was written.
func (o *Object) End() []byte { return append(o.buf, '}') }

// name begins a member. Names are written as they are: they need no escape.
func (o *Object) name(name string) {
	b := o.buf
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	o.buf = append(append(append(b, '"'), name...), '"', ':')
}

// String is a member that is a string.
func (o *Object) String(name, value string) {
	o.name(name)
	o.buf = AppendString(o.buf, value)
}

// OptionalText is a member that is a string, written as an encoder does that leaves <, > and & as they are (SetEscapeHTML
// of false), and left out where it is empty.
func (o *Object) OptionalText(name, value string) {
	if value != "" {
		o.name(name)
		o.buf = AppendText(o.buf, value)
	}
}

// Int is a member that is a whole number.
func (o *Object) Int(name string, value int64) {
	o.name(name)
	o.buf = strconv.AppendInt(o.buf, value, 10)
}

// Bool is a member that is true or false.
func (o *Object) Bool(name string, value bool) {
	o.name(name)
	o.buf = strconv.AppendBool(o.buf, value)
}

// Null is a member that is null.
func (o *Object) Null(name string) { o.Raw(name, []byte("null")) }

// Strings is a member that is a list of strings; nil is null.
func (o *Object) Strings(name string, list []string) {
	if list == nil {
		o.Null(name)
		return
	}
	o.list(name, list, AppendString)
}

// Raw is a member whose value is JSON already, compact.
func (o *Object) Raw(name string, value []byte) {
	o.name(name)
	o.buf = append(o.buf, value...)
}

// Quoted is a member that is an amount, which is written as a string.
func (o *Object) Quoted(name string, amount money.USD) {
	o.name(name)
	o.buf, _ = amount.AppendText(append(o.buf, '"')) // cannot fail
	o.buf = append(o.buf, '"')
}

// Nano is Quoted of an amount in nano-dollars.
func (o *Object) Nano(name string, amount money.Nano) {
	o.name(name)
	o.buf = append(amount.AppendUSD(append(o.buf, '"')), '"')
}

// Plain is String for a text of which the caller knows that nothing in it needs an escape.
func (o *Object) Plain(name, value string) {
	o.name(name)
	o.buf = append(append(append(o.buf, '"'), value...), '"')
}

// Entry is a member that is a quantity, with a name that is not the caller's own: it is escaped as OptionalText does.
func (o *Object) Entry(name string, quantity money.Decimal) {
	if o.buf[len(o.buf)-1] != '{' {
		o.buf = append(o.buf, ',')
	}
	o.buf, _ = quantity.AppendText(append(AppendText(o.buf, name), ':')) // cannot fail
}

// Texts is a member that is a list of strings, as OptionalText writes them; nil is an empty one.
func (o *Object) Texts(name string, list []string) { o.list(name, list, AppendText) }

func (o *Object) list(name string, list []string, add func([]byte, string) []byte) {
	o.name(name)
	o.buf = append(o.buf, '[')
	for i, s := range list {
		if i > 0 {
			o.buf = append(o.buf, ',')
		}
		o.buf = add(o.buf, s)
	}
	o.buf = append(o.buf, ']')
}

// Appended is a member whose value add appends, as compact JSON, to what it is given.
func (o *Object) Appended(name string, add func(b []byte) []byte) {
	o.name(name)
	o.buf = add(o.buf)
}

// Open begins a member that is an object: what is written until Close are its members.
func (o *Object) Open(name string) {
	o.name(name)
	o.buf = append(o.buf, '{')
}

// Close ends what Open began.
func (o *Object) Close() { o.buf = append(o.buf, '}') }

// AppendString appends s as a JSON string. Text that needs an escape goes the long way.
func AppendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; escaped(c) || c == '<' || c == '>' || c == '&' {
			text, _ := json.Marshal(s) // a string always encodes
			return append(b, text...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

// AppendText is AppendString but for <, > and &, which stay as they are.
func AppendText(b []byte, s string) []byte {
	for i := range len(s) {
		if escaped(s[i]) {
			var text bytes.Buffer
			enc := json.NewEncoder(&text)
			enc.SetEscapeHTML(false)
			_ = enc.Encode(s) // a string always encodes; invalid UTF-8 is replaced
			return append(b, text.Bytes()[:text.Len()-1]...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

// escaped reports whether a string with c in it is not, or may not be, written as it is.
func escaped(c byte) bool { return c < ' ' || c > '~' || c == '"' || c == '\\' }
