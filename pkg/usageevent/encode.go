package usageevent

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/weir-project/weir/pkg/domain/money"
)

// ContentType is the content-type header of what Encode returns.
const ContentType = "application/cloudevents+json"

// Encode writes the event in structured mode: members in a fixed order, absent ones left out, the provider's usage with
// its members sorted. The same event always gives the same bytes.
func Encode(ev Event) []byte {
	var w writer
	w.buf.Grow(1024) // about what a settle is
	w.open()
	w.text("specversion", "1.0")
	w.text("id", ev.ID)
	w.text("source", ev.Source)
	w.text("type", ev.Type)
	w.text("subject", ev.Subject)
	w.time("time", ev.Time)
	w.text("datacontenttype", "application/json")
	w.name("data")
	if ev.Data.Marker != nil {
		w.marker(*ev.Data.Marker)
	} else {
		w.data(ev.Data)
	}
	w.close()
	return w.buf.Bytes()
}

// ContentHash is the SHA-256 of what the event says: everything but the token and the key that it was sent with. Two
// encodings of one event have the same hash; numbers in the provider's usage are compared as written.
//
// An execution ends once, whoever saw it first: two copies of the breaker may trip on different causes at the same
// instant, so a termination is only what it ends.
func ContentHash(ev Event) [sha256.Size]byte {
	ev.Data.ExecutionToken, ev.Data.APIKeyID = "", ""
	if ev.Type == TypeTermination {
		ev.Time, ev.Data = time.Time{}, Data{RootExecutionID: ev.Data.RootExecutionID}
	}
	return sha256.Sum256(Encode(ev))
}

// writer writes one JSON document. It leaves empty members out.
type writer struct {
	buf   bytes.Buffer
	first bool
}

func (w *writer) open() { w.buf.WriteByte('{'); w.first = true }

func (w *writer) close() { w.buf.WriteByte('}'); w.first = false }

func (w *writer) name(name string) {
	if !w.first {
		w.buf.WriteByte(',')
	}
	w.first = false
	w.string(name)
	w.buf.WriteByte(':')
}

func (w *writer) string(s string) {
	if plainText(s) {
		w.buf.WriteByte('"')
		w.buf.WriteString(s)
		w.buf.WriteByte('"')
		return
	}
	enc := json.NewEncoder(&w.buf)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s)               // a string always encodes; invalid UTF-8 is replaced
	w.buf.Truncate(w.buf.Len() - 1) // the encoder's newline
}

// plainText reports whether a string is written as it is.
func plainText(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

func (w *writer) text(name, s string) {
	if s != "" {
		w.name(name)
		w.string(s)
	}
}

func (w *writer) time(name string, t time.Time) {
	if !t.IsZero() {
		w.text(name, t.UTC().Format(time.RFC3339Nano))
	}
}

func (w *writer) integer(name string, n int64) {
	w.name(name)
	w.buf.WriteString(strconv.FormatInt(n, 10))
}

func (w *writer) meters(name string, m map[string]money.Decimal) {
	if m == nil {
		return
	}
	w.name(name)
	w.open()
	for _, meter := range slices.Sorted(maps.Keys(m)) {
		w.name(meter)
		w.buf.WriteString(m[meter].String())
	}
	w.close()
}

func (w *writer) texts(name string, list []string) {
	if len(list) == 0 {
		return
	}
	w.name(name)
	for i, s := range list {
		w.buf.WriteByte("[,"[min(i, 1)])
		w.string(s)
	}
	w.buf.WriteByte(']')
}

func (w *writer) data(d Data) {
	w.open()
	w.text("execution_token", d.ExecutionToken)
	w.text("root_execution_id", d.RootExecutionID)
	w.text("parent_agent_id", d.ParentAgentID)
	w.text("agent_id", d.AgentID)
	w.text("cost_center", d.CostCenter)
	w.text("provider", d.Provider)
	w.text("model", d.Model)
	w.text("api", d.API)
	if d.Usage != nil {
		w.name("usage")
		w.buf.Write(Canonical(d.Usage))
	}
	w.meters("meters", d.Meters)
	w.text("service_tier", d.ServiceTier)
	w.text("cache_hit", d.CacheHit)
	w.text("status", d.Status)
	w.text("error_code", d.ErrorCode)
	w.text("reservation_id", d.ReservationID)
	w.text("response_id", d.ResponseID)
	w.text("traceparent", d.Traceparent)
	w.text("tracestate", d.Tracestate)
	w.text("api_key_id", d.APIKeyID)
	if d.Reservation != nil {
		w.name("reservation")
		w.reservation(*d.Reservation)
	}
	w.close()
}

func (w *writer) reservation(r Reservation) {
	w.open()
	w.time("reserved_at", r.ReservedAt)
	w.text("outcome", r.Outcome)
	w.text("own_mode", r.OwnMode)
	w.integer("own_nanos", int64(r.OwnNanos))
	w.integer("held_nanos", int64(r.HeldNanos))
	w.integer("epoch", r.Epoch)
	if r.EstimateUSD != nil {
		w.text("estimate_usd", r.EstimateUSD.String())
	}
	w.meters("estimate", r.Estimate)
	w.text("price_version", r.PriceVersion)
	w.integer("depth", int64(r.Depth))
	w.texts("flags", r.Flags)
	if len(r.Scopes) > 0 {
		w.name("scopes")
		w.open()
		for _, kind := range slices.Sorted(maps.Keys(r.Scopes)) {
			w.text(kind, r.Scopes[kind])
		}
		w.close()
	}
	w.close()
}

// Canonical rewrites JSON as Encode writes a provider's usage: without white space, with sorted members, of two equal
// names the last; numbers keep their text. What is not JSON is written as a string, so that Encode has no error: Decode
// then refuses it.
func Canonical(raw json.RawMessage) []byte {
	if out, ok := plainCanonical(raw); ok {
		return out
	}
	return readCanonical(raw)
}

// Reordered is Canonical where that changes nothing but white space and the order of members; false elsewhere.
func Reordered(raw json.RawMessage) ([]byte, bool) { return plainCanonical(raw) }

// readCanonical is Canonical for what is not plain.
func readCanonical(raw []byte) []byte {
	var v any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if dec.Decode(&v) != nil || dec.More() {
		v = string(raw)
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // v came from JSON or is a string
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}
