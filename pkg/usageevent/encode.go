package usageevent

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/plainjson"
	"github.com/weir-project/weir/pkg/jsonwrite"
)

// ContentType is the content-type header of what Encode returns.
const ContentType = "application/cloudevents+json"

// Encode writes the event in structured mode: members in a fixed order, absent ones left out, the provider's usage with
// its members sorted. The same event always gives the same bytes.
func Encode(ev Event) []byte {
	value, _ := encode(&ev)
	return value
}

// encode is Encode; plainUsage says that the usage, if there is any, was plain JSON.
func encode(ev *Event) (value []byte, plainUsage bool) {
	o := jsonwrite.New(make([]byte, 0, usualSize+len(ev.Data.Usage)))
	o.OptionalText("specversion", "1.0")
	o.OptionalText("id", ev.ID)
	o.OptionalText("source", ev.Source)
	o.OptionalText("type", ev.Type)
	o.OptionalText("subject", ev.Subject)
	instantMember(&o, "time", ev.Time)
	o.OptionalText("datacontenttype", "application/json")
	o.Open("data")
	if m := ev.Data.Marker; m != nil {
		m.members(&o)
	} else {
		plainUsage = ev.Data.members(&o)
	}
	o.Close()
	return o.End(), plainUsage
}

// usualSize is about what a settle is, in bytes, without the provider's usage.
const usualSize = 1024

// ContentHash is the SHA-256 of what the event says: everything but the token and the key that it was sent with, and the day,
// which the reservation has one of. Two encodings of one event have the same hash; numbers in the provider's usage are compared
// as written.
//
// An execution ends once, whoever saw it first: two copies of the breaker may trip on different causes at the same
// instant, so a termination is only what it ends.
func ContentHash(ev Event) [sha256.Size]byte {
	ev.Data.ExecutionToken, ev.Data.APIKeyID = "", ""
	if r := ev.Data.Reservation; r != nil && r.Day != 0 {
		dayless := *r
		dayless.Day, ev.Data.Reservation = 0, &dayless
	}
	if ev.Type == TypeTermination {
		ev.Time, ev.Data = time.Time{}, Data{RootExecutionID: ev.Data.RootExecutionID}
	}
	return sha256.Sum256(Encode(ev))
}

// instantMember is a time, left out where it is zero.
func instantMember(o *jsonwrite.Object, name string, t time.Time) {
	if t.IsZero() {
		return
	}
	o.Appended(name, func(b []byte) []byte {
		return append(t.UTC().AppendFormat(append(b, '"'), time.RFC3339Nano), '"')
	})
}

// meterMember is the quantities, sorted by name; nil is left out.
func meterMember(o *jsonwrite.Object, name string, m map[string]money.Decimal) {
	if m == nil {
		return
	}
	var room [8]string // enough for nearly every call, without the heap
	names := slices.AppendSeq(room[:0], maps.Keys(m))
	slices.Sort(names)
	o.Open(name)
	for _, meter := range names {
		o.Entry(meter, m[meter])
	}
	o.Close()
}

func (d *Data) members(o *jsonwrite.Object) (plainUsage bool) {
	plainUsage = true
	o.OptionalText("execution_token", d.ExecutionToken)
	o.OptionalText("root_execution_id", d.RootExecutionID)
	o.OptionalText("parent_agent_id", d.ParentAgentID)
	o.OptionalText("agent_id", d.AgentID)
	o.OptionalText("cost_center", d.CostCenter)
	o.OptionalText("provider", d.Provider)
	o.OptionalText("model", d.Model)
	o.OptionalText("api", d.API)
	switch {
	case d.ordered:
		o.Raw("usage", d.Usage)
	case d.Usage != nil:
		o.Appended("usage", func(b []byte) []byte {
			b, plainUsage = appendCanonical(b, d.Usage)
			return b
		})
	}
	meterMember(o, "meters", d.Meters)
	o.OptionalText("service_tier", d.ServiceTier)
	o.OptionalText("cache_hit", d.CacheHit)
	o.OptionalText("status", d.Status)
	o.OptionalText("error_code", d.ErrorCode)
	o.OptionalText("reservation_id", d.ReservationID)
	o.OptionalText("response_id", d.ResponseID)
	o.OptionalText("traceparent", d.Traceparent)
	o.OptionalText("tracestate", d.Tracestate)
	o.OptionalText("api_key_id", d.APIKeyID)
	if d.Reservation != nil {
		o.Open("reservation")
		d.Reservation.members(o)
		o.Close()
	}
	return plainUsage
}

func (r *Reservation) members(o *jsonwrite.Object) {
	instantMember(o, "reserved_at", r.ReservedAt)
	o.OptionalText("outcome", r.Outcome)
	o.OptionalText("own_mode", r.OwnMode)
	o.Int("own_nanos", int64(r.OwnNanos))
	o.Int("held_nanos", int64(r.HeldNanos))
	o.Int("epoch", r.Epoch)
	if r.Day != 0 {
		o.Int("day", int64(r.Day))
	}
	if r.EstimateUSD != nil {
		o.Quoted("estimate_usd", *r.EstimateUSD)
	}
	meterMember(o, "estimate", r.Estimate)
	o.OptionalText("price_version", r.PriceVersion)
	o.Int("depth", int64(r.Depth))
	if len(r.Flags) > 0 {
		o.Texts("flags", r.Flags)
	}
	if len(r.Scopes) > 0 {
		o.Open("scopes")
		for _, kind := range slices.Sorted(maps.Keys(r.Scopes)) {
			o.OptionalText(kind, r.Scopes[kind])
		}
		o.Close()
	}
	if len(r.Branches) > 0 {
		o.Texts("branches", r.Branches)
	}
}

// Canonical rewrites JSON as Encode writes a provider's usage: without white space, with sorted members, of two equal
// names the last; numbers keep their text. What is not JSON is written as a string, so that Encode has no error: Decode
// then refuses it.
func Canonical(raw json.RawMessage) []byte {
	b, _ := appendCanonical(make([]byte, 0, len(raw)), raw)
	return b
}

func appendCanonical(b, raw []byte) (out []byte, plain bool) {
	if out, ok := appendPlain(b, raw, nil); ok {
		return out, true
	}
	return append(b, readCanonical(raw)...), false
}

// Ordered is a provider's object as Encode writes it, of which is known that Decode takes it. Order makes it.
type Ordered struct{ text json.RawMessage }

// Bytes is the object's JSON; nil where there is none.
func (o Ordered) Bytes() json.RawMessage { return o.text }

// Order is Canonical of an object where that changes nothing but white space and the order of members, and where every
// name, at whatever depth, is one that allowed takes and has no upper case, so that no two are the same to encoding/json.
// Elsewhere it is false. What CheckUsage refuses cannot be put in order.
func Order(raw json.RawMessage, allowed func(name []byte) bool) (Ordered, bool) {
	from := plainjson.Space(raw, 0)
	o, end, ok := OrderFirst(raw[from:], allowed)
	if !ok || plainjson.Space(raw, from+end) < len(raw) {
		return Ordered{}, false
	}
	return o, true
}

// OrderFirst is Order of the object that b begins with, and its end: for whoever does not know the end.
func OrderFirst(b []byte, allowed func(name []byte) bool) (o Ordered, end int, ok bool) {
	if len(b) == 0 || b[0] != '{' {
		return Ordered{}, 0, false
	}
	out, end := appendPlainObject(make([]byte, 0, len(b)), b, 0, 1, allowed)
	if end < 0 {
		return Ordered{}, 0, false
	}
	return Ordered{out}, end, true
}

// SetUsage sets Usage to an object that is known already.
func (d *Data) SetUsage(o Ordered) { d.Usage, d.ordered = o.text, o.text != nil }

// readCanonical is Canonical for what is not plain.
func readCanonical(raw []byte) []byte {
	var v any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	err := dec.Decode(&v)
	if _, end := dec.Token(); err != nil || end != io.EOF {
		v = string(raw)
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // v came from JSON or is a string
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}
