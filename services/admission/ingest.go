package admission

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/weir-project/weir/pkg/usageevent"
)

// Bounds of the ingest. A body counts with its length until Kafka has acknowledged it or the deadline has passed; above
// the bounds the answer is 429, so that Kafka away does not fill this process, nor one tenant all of its share.
const (
	maxEventsBody     = 4 << 20
	maxEvents         = 1000
	maxInFlight       = 64 << 20
	maxTenantInFlight = 16 << 20
)

// inFlight counts the bytes that wait for Kafka, in all and by tenant.
type inFlight struct {
	mu  sync.Mutex
	all int64
	by  map[string]int64
}

// take reserves room; false if there is none.
func (f *inFlight) take(tenant string, n int64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.all+n > maxInFlight || f.by[tenant]+n > maxTenantInFlight {
		return false
	}
	if f.by == nil {
		f.by = map[string]int64{}
	}
	f.all, f.by[tenant] = f.all+n, f.by[tenant]+n
	return true
}

func (f *inFlight) give(tenant string, n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all, f.by[tenant] = f.all-n, f.by[tenant]-n
	if f.by[tenant] <= 0 {
		delete(f.by, tenant)
	}
}

// readEvents decodes a body by CloudEvents' HTTP binding: structured (application/cloudevents+json), batched
// (application/cloudevents-batch+json) and binary (ce- headers with application/json); plain application/json, as
// OpenMeter's clients send it, is one event or an array of them. All or nothing.
func readEvents(h http.Header, body []byte) ([]usageevent.Event, *Problem) {
	kind, params, err := mime.ParseMediaType(h.Get("Content-Type"))
	if h.Get("Content-Type") == "" {
		kind, err = "application/json", nil
	}
	if charset := strings.ToLower(params["charset"]); err != nil || charset != "" && charset != "utf-8" && charset != "us-ascii" {
		return nil, invalid("Content-Type", "Content-Type is not readable, or not UTF-8.")
	}
	first := bytes.TrimLeft(body, " \t\r\n")
	array := len(first) > 0 && first[0] == '['
	switch {
	case kind == "application/cloudevents-batch+json", kind == "application/json" && array && !isBinary(h):
		return readBatch(body)
	case kind == "application/cloudevents+json":
		return readOne(body, structured)
	case kind != "application/json":
		return nil, invalid("Content-Type", "Content-Type is application/cloudevents+json, application/cloudevents-batch+json or application/json.")
	case isBinary(h):
		header, p := binaryHeader(h)
		if p != nil {
			return nil, p
		}
		return readOne(body, header)
	default:
		return readOne(body, structured)
	}
}

func isBinary(h http.Header) bool { return h.Get("Ce-Specversion") != "" || h.Get("Ce-Id") != "" }

// structured is the header of an event that is whole in its body.
func structured(key string) ([]byte, bool) {
	return []byte(usageevent.ContentType), key == "content-type"
}

// binaryHeader gives the attributes in ce- headers as Kafka's binding names them; their values are percent-encoded.
func binaryHeader(h http.Header) (usageevent.Header, *Problem) {
	attributes := map[string]string{"content-type": "application/json"}
	for name, values := range h {
		attribute, ok := strings.CutPrefix(strings.ToLower(name), "ce-")
		if !ok {
			continue
		}
		text, err := url.PathUnescape(values[0])
		if len(values) != 1 || err != nil {
			return nil, invalid(name, name+" is there twice, or not percent-encoded.")
		}
		attributes["ce_"+attribute] = text
	}
	return func(key string) ([]byte, bool) {
		text, ok := attributes[key]
		return []byte(text), ok
	}, nil
}

func readOne(body []byte, header usageevent.Header) ([]usageevent.Event, *Problem) {
	ev, err := usageevent.Decode(body, header)
	if err != nil {
		return nil, invalid("", err.Error())
	}
	if !wellFormed(string(body)) {
		return nil, invalid("", "The event "+notText+".")
	}
	return []usageevent.Event{ev}, nil
}

func readBatch(body []byte) ([]usageevent.Event, *Problem) {
	dec := json.NewDecoder(bytes.NewReader(body))
	if t, err := dec.Token(); err != nil || t != json.Delim('[') {
		return nil, invalid("", "The body is not a JSON array of events.")
	}
	var events []usageevent.Event
	for i := 0; dec.More(); i++ {
		if i == maxEvents {
			return nil, invalid("", fmt.Sprintf("A batch has at most %d events.", maxEvents))
		}
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return nil, invalid("", "The body is not a JSON array of events.")
		}
		one, p := readOne(raw, structured)
		if p != nil {
			return nil, ofEvent(i, p)
		}
		events = append(events, one...)
	}
	_, closed := dec.Token()
	if _, err := dec.Token(); closed != nil || !errors.Is(err, io.EOF) {
		return nil, invalid("", "The body is not one JSON array of events.")
	}
	return events, nil
}

// ofEvent says which event of a batch is meant.
func ofEvent(i int, p *Problem) *Problem {
	p.Field = fmt.Sprintf("[%d]", i)
	return p
}
