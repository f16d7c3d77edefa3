package admission

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

const anEvent = `{"specversion":"1.0","id":"e1","source":"agents/7","type":"weir.usage.v1","data":{"provider":"openai","model":"gpt-4o","meters":{"input_tokens":1}}}`

func eventHeader(contentType string, more ...string) http.Header {
	h := http.Header{}
	if contentType != "" {
		h.Set("Content-Type", contentType)
	}
	for i := 0; i+1 < len(more); i += 2 {
		h.Add(more[i], more[i+1])
	}
	return h
}

// Each way of CloudEvents' HTTP binding is read, and what is none of them is refused whole.
func TestReadEvents(t *testing.T) {
	const data = `{"provider":"openai","model":"gpt-4o","meters":{"input_tokens":1}}`
	binary := []string{"Ce-Specversion", "1.0", "Ce-Id", "e%201", "Ce-Source", "agents/7", "Ce-Type", "weir.usage.v1", "Ce-Subject", "acme"}
	for _, c := range []struct {
		name   string
		header http.Header
		body   string
		want   string // ids, or the field and a word of the refusal
	}{
		{"structured", eventHeader("application/cloudevents+json"), anEvent, "e1"},
		{"structured, UTF-8", eventHeader("application/cloudevents+json; charset=UTF-8"), anEvent, "e1"},
		{"batch", eventHeader("application/cloudevents-batch+json"), "[" + anEvent + "," + strings.Replace(anEvent, "e1", "e2", 1) + "]", "e1 e2"},
		{"empty batch", eventHeader("application/cloudevents-batch+json"), "[]", ""},
		{"OpenMeter, one", eventHeader("application/json"), anEvent, "e1"}, {"OpenMeter, many", eventHeader("application/json"), " [" + anEvent + "]", "e1"},
		{"no content type", eventHeader(""), anEvent, "e1"},
		{"binary", eventHeader("application/json", binary...), data, "e 1"},
		{"the whole batch again", eventHeader("application/cloudevents-batch+json"), "[" + strings.Repeat(anEvent+",", maxEvents-1) + anEvent + "]", strings.TrimSpace(strings.Repeat("e1 ", maxEvents))},

		{"too many", eventHeader("application/json"), "[" + strings.Repeat(anEvent+",", maxEvents) + anEvent + "]", "!: at most 1000"},
		{"one as batch", eventHeader("application/cloudevents-batch+json"), anEvent, "!: not a JSON array"},
		{"batch as one", eventHeader("application/cloudevents+json"), "[" + anEvent + "]", "!: not a JSON object"},
		{"second is bad", eventHeader("application/json"), "[" + anEvent + "," + strings.Replace(anEvent, `"e1"`, "null", 1) + "]", "![1]: no_id"},
		{"open end", eventHeader("application/json"), "[" + anEvent, "!: array"}, {"more behind", eventHeader("application/json"), "[" + anEvent + "] x", "!: one JSON array"},
		{"text", eventHeader("text/plain"), anEvent, "!Content-Type: "}, {"latin", eventHeader("application/json; charset=latin1"), anEvent, "!Content-Type: UTF-8"},
		{"unreadable", eventHeader("a/b/c"), anEvent, "!Content-Type: "}, {"empty", eventHeader("application/json"), "", "!: no data"},
		{"id twice", eventHeader("application/json", append(binary, "Ce-Id", "e2")...), data, "!Ce-Id: twice"},
		{"bad escape", eventHeader("application/json", "Ce-Id", "%zz", "Ce-Specversion", "1.0"), data, "!Ce-Id: percent"},
		{"binary array", eventHeader("application/json", binary...), "[" + data + "]", "!: not a JSON object"},
		{"usage twice", eventHeader("application/json"), "[" + anEvent + "," + strings.Replace(anEvent, `"meters":{"input_tokens":1}`, `"usage":{"a":{"b":1,"b":2}}`, 1) + "]", "![1]: twice"},
		{"half a character", eventHeader(""), strings.Replace(anEvent, `"provider"`, `"agent_id":"\ud800","provider"`, 1), "!: half of a character"},
		{"half a character in a batch", eventHeader("application/json"), "[" + strings.Replace(anEvent, `"provider"`, `"agent_id":"\udc00","provider"`, 1) + "]", "![0]: half of a character"},
		{"a whole character, escaped", eventHeader(""), strings.Replace(anEvent, `"provider"`, `"agent_id":"\ud83d\ude00","provider"`, 1), "e1"},
		{"negative", eventHeader(""), strings.Replace(anEvent, ":1}", ":-1}", 1), "!: negative_meter"},
	} {
		t.Run(c.name, func(t *testing.T) {
			events, p := readEvents(c.header, []byte(c.body))
			if p != nil {
				if field, word, _ := strings.Cut(strings.TrimPrefix(c.want, "!"), ": "); !strings.HasPrefix(c.want, "!") || p.Field != field || !strings.Contains(p.Detail, word) || p.Status != 400 {
					t.Fatalf("%+v", p)
				}
				return
			}
			var ids []string
			for _, ev := range events {
				ids = append(ids, ev.ID)
			}
			if got := strings.Join(ids, " "); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestInFlightIsBounded(t *testing.T) {
	var f inFlight
	taken := 0
	for i := range 8 {
		for f.take(fmt.Sprint("t", i), maxEventsBody) {
			taken++
		}
	}
	if taken != maxInFlight/maxEventsBody || f.take("late", 1) {
		t.Errorf("%d taken", taken)
	}
	if f.by["t0"] != maxTenantInFlight {
		t.Errorf("one tenant has %d", f.by["t0"])
	}
	f.give("t0", maxEventsBody)
	if !f.take("late", 1) {
		t.Error("room that was given back is not there")
	}
	f.give("late", 1)
	if _, kept := f.by["late"]; kept {
		t.Error("a tenant without anything is kept")
	}
}

// FuzzReadEvents: no body and no header makes the reader panic.
func FuzzReadEvents(f *testing.F) {
	f.Add("application/json", "", []byte("["+anEvent+"]"))
	f.Add("application/cloudevents+json", "", []byte(anEvent))
	f.Add("application/json", "e1", []byte(`{}`))
	f.Fuzz(func(t *testing.T, contentType, id string, body []byte) {
		h := eventHeader(contentType)
		if id != "" {
			h["Ce-Id"] = []string{id}
		}
		if events, p := readEvents(h, body); p == nil && len(events) > maxEvents {
			t.Errorf("%d events", len(events))
		}
	})
}
