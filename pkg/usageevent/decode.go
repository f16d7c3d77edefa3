package usageevent

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Header looks up a record header; bus.Record.Header is one. nil means that there are none.
type Header func(key string) ([]byte, bool)

// attributes of the envelope that are compared and read in both modes.
var attributeNames = [...]string{"specversion", "id", "source", "type", "subject", "time", "datacontenttype", "traceparent", "tracestate"}

// Decode reads one event from a record's value and headers. Structured mode is recognised by the content-type header
// or, without one, by the body; otherwise ce_ headers make it binary mode. Errors are *Error.
func Decode(value []byte, header Header) (Event, error) {
	ev, err := decode(value, header)
	if err != nil {
		return Event{}, err
	}
	return ev, nil
}

func decode(value []byte, header Header) (Event, *Error) {
	if header == nil {
		header = func(string) ([]byte, bool) { return nil, false }
	}
	switch {
	case len(value) > MaxBytes:
		return Event{}, &Error{Reason: Oversized, Detail: fmt.Sprintf("%d bytes of at most %d", len(value), MaxBytes)}
	case len(value) == 0:
		return Event{}, malformed("no data")
	case !utf8.Valid(value):
		return Event{}, malformed("not UTF-8")
	}
	contentType := strings.ToLower(headerText(header, "content-type"))
	switch {
	case strings.HasPrefix(contentType, "application/cloudevents-batch"):
		return Event{}, malformed("a batch is not allowed in a record")
	case strings.HasPrefix(contentType, "application/cloudevents"):
		return structured(value, header)
	case headerText(header, "ce_specversion") != "" || headerText(header, "ce_id") != "":
		return binary(value, header, contentType)
	}
	return structured(value, header)
}

func headerText(header Header, key string) string {
	b, _ := header(key)
	return string(b)
}

// structured reads the envelope from the body. Repeated ce_ headers must agree with it (Kafka binding).
func structured(value []byte, header Header) (Event, *Error) {
	body, err := members(value, "event")
	if err != nil {
		return Event{}, err
	}
	attr := map[string]string{}
	for _, name := range attributeNames {
		s, err := body.text(name, MaxText)
		if err != nil {
			return Event{}, err
		}
		attr[name] = s
		if h, ok := header("ce_" + name); ok && string(h) != s {
			return Event{}, malformed(fmt.Sprintf("header ce_%s and the body differ", name))
		}
	}
	data, err := dataOf(body)
	if err != nil {
		return Event{}, err
	}
	return build(attr, data, header)
}

// dataOf returns the JSON of data, which may be there as JSON or as base64, not both.
func dataOf(body object) (json.RawMessage, *Error) {
	switch {
	case body.present("data") && body.present("data_base64"):
		return nil, malformed("both data and data_base64")
	case body.present("data_base64"):
		s, err := body.text("data_base64", 2*MaxBytes)
		if err != nil {
			return nil, err
		}
		raw, decErr := base64.StdEncoding.DecodeString(s)
		if decErr != nil || !utf8.Valid(raw) {
			return nil, malformed("data_base64 is not base64 of UTF-8 text")
		}
		return raw, nil
	case body.present("data"):
		return body["data"], nil
	}
	return nil, malformed("no data")
}

// binary reads the envelope from ce_ headers; the value is data itself.
func binary(value []byte, header Header, contentType string) (Event, *Error) {
	attr := map[string]string{}
	for _, name := range attributeNames {
		s := headerText(header, "ce_"+name)
		if err := checkText("ce_"+name, s, MaxText); err != nil {
			return Event{}, err
		}
		attr[name] = s
	}
	attr["datacontenttype"] = contentType
	return build(attr, value, header)
}

// signatureHeader is identity.SignatureHeader. Whether the signature is right is not judged here.
const signatureHeader = "weir-signature"

func build(attr map[string]string, data json.RawMessage, header Header) (Event, *Error) {
	ev := Event{ID: attr["id"], Source: attr["source"], Type: attr["type"], Subject: attr["subject"]}
	if attr["specversion"] != "1.0" {
		return Event{}, malformed(fmt.Sprintf("specversion is %q, not \"1.0\"", clip(attr["specversion"])))
	}
	if err := requiredID("id", ev.ID, maxIDOf(ev.Source)); err != nil {
		return Event{}, err
	}
	if err := requiredID("source", ev.Source, MaxText); err != nil {
		return Event{}, err
	}
	if ev.Type != TypeUsage && ev.Type != TypeUnsettled && ev.Type != TypeTermination && ev.Type != TypeEpoch {
		return Event{}, malformed(fmt.Sprintf("type is %q", clip(ev.Type)))
	}
	if ev.Subject != "" {
		if err := requiredID("subject", ev.Subject, MaxID); err != nil {
			return Event{}, err
		}
	}
	if t := strings.ToLower(attr["datacontenttype"]); t != "" && !strings.Contains(t, "json") {
		return Event{}, malformed(fmt.Sprintf("data is %q, not JSON", clip(t)))
	}
	var err *Error
	if ev.Time, err = instant("time", attr["time"]); err != nil {
		return Event{}, err
	}
	if ev.Type == TypeEpoch {
		err = readMarker(&ev, data)
		return ev, err
	}
	_, signed := header(signatureHeader)
	if ev.Data, err = readData(data, signed); err != nil {
		return Event{}, err
	}
	// The distributed tracing extension: what the payload says itself is nearer to the call.
	if ev.Data.Traceparent == "" && ev.Data.Tracestate == "" {
		ev.Data.Traceparent, ev.Data.Tracestate = attr["traceparent"], attr["tracestate"]
	}
	return ev, nil
}

// instant reads RFC 3339 between the years 2000 and 2199, which every store of ours can hold; "" is the zero time.
func instant(name, s string) (time.Time, *Error) {
	if s == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return time.Time{}, malformed(fmt.Sprintf("%s %q is not RFC 3339", name, clip(s)))
	}
	t = t.UTC()
	if t.Year() < 2000 || t.Year() > 2199 {
		return time.Time{}, malformed(fmt.Sprintf("%s is in the year %d", name, t.Year()))
	}
	return t, nil
}
