package usageevent

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

func scopedEvent() Event {
	return Event{ID: "e1", Source: SourceAdmission, Type: TypeUsage, Subject: "acme", Time: time.Unix(1_800_000_000, 0).UTC(),
		Data: Data{Provider: "openai", Model: "gpt-4o", APIKeyID: "k1", Reservation: &Reservation{
			ReservedAt: time.Unix(1_800_000_000, 0).UTC(), Outcome: OutcomeSettled,
			Scopes: map[string]string{"agent": "planner", "api_key": "k1", "cost_center": "unassigned"}, Branches: []string{"b_2", "b_1"}}}}
}

// The key and the sub-scopes of a reservation come back as they were; the key is no part of what the event says.
func TestScopesRoundTrip(t *testing.T) {
	ev := scopedEvent()
	got, err := Decode(Encode(ev), nil)
	if err != nil || !reflect.DeepEqual(got, ev) {
		t.Errorf("%v\n got %+v\nwant %+v", err, got.Data.Reservation, ev.Data.Reservation)
	}
	other := scopedEvent()
	other.Data.APIKeyID = "k2"
	if ContentHash(ev) != ContentHash(other) {
		t.Error("another key made another event")
	}
	delete(other.Data.Reservation.Scopes, "agent")
	if ContentHash(ev) == ContentHash(other) {
		t.Error("what a hold counted in is content")
	}
	other = scopedEvent()
	other.Data.Reservation.Branches = other.Data.Reservation.Branches[:1]
	if ContentHash(ev) == ContentHash(other) {
		t.Error("in which branches, too")
	}
}

func TestScopesRefused(t *testing.T) {
	good := string(Encode(scopedEvent()))
	for name, change := range map[string][2]string{
		"unknown kind": {`"agent":"planner"`, `"team":"planner"`},
		"no name":      {`"agent":"planner"`, `"agent":""`},
		"no object":    {`{"agent":"planner","api_key":"k1","cost_center":"unassigned"}`, `["agent"]`},
		"no branch":    {`"b_1"`, `""`}, "branch twice": {`"b_1"`, `"b_2"`}, "no list": {`["b_2","b_1"]`, `"b_1"`}, "no text": {`"b_1"`, `1`},
		"too many": {`"b_1"`, `"1","2","3","4","5","6","7","8"`},
		"twice":    {`"agent":"planner"`, `"agent":"planner","agent":"b"`},
	} {
		bad := strings.Replace(good, change[0], change[1], 1)
		if _, err := Decode([]byte(bad), headers(signatureHeader, "x")); err == nil || bad == good {
			t.Errorf("%s was accepted: %s", name, bad)
		}
	}
}
