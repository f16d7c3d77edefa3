package usageevent

import (
	"reflect"
	"strings"
	"testing"
)

const markerText = `{"specversion":"1.0","id":"epoch:12:raised:3","source":"weir/admission","type":"weir.epoch.v1","datacontenttype":"application/json","data":{"epoch":12,"phase":"raised","partition":3}}`

func TestMarkerRoundTrip(t *testing.T) {
	ev := MarkerEvent(Marker{Epoch: 12, Phase: EpochRaised, Partition: 3})
	if got := string(Encode(ev)); got != markerText {
		t.Errorf("got  %s\nwant %s", got, markerText)
	}
	for _, m := range []Marker{{12, EpochRaised, 3}, {1, EpochBarrier, 0}, {maxEpoch, EpochBarrier, 1<<31 - 1}} {
		ev := MarkerEvent(m)
		back, err := Decode(Encode(ev), headers("content-type", ContentType))
		if err != nil || !reflect.DeepEqual(back, ev) {
			t.Errorf("%+v: %+v, %v", m, back, err)
		}
	}
}

// Goal: whatever is signed as a marker is exactly one, and an id stands for one content.
func TestMarkerRefusals(t *testing.T) {
	for name, edit := range map[string][2]string{
		"other epoch than the id's": {`"epoch":12`, `"epoch":13`},
		"other partition":           {`"partition":3`, `"partition":4`},
		"other phase":               {`"phase":"raised"`, `"phase":"barrier"`},
		"no phase of ours":          {`raised`, `lowered`},
		"epoch zero":                {`12`, `0`},
		"epoch beyond 52 bits":      {`12`, `4503599627370496`},
		"epoch is a text":           {`"epoch":12`, `"epoch":"12"`},
		"negative partition":        {`3`, `-1`},
		"no partition":              {`,"partition":3`, ``},
		"null phase":                {`"phase":"raised"`, `"phase":null`},
		"a tenant":                  {`"type"`, `"subject":"acme","type"`},
		"another source":            {`weir/admission`, `weir/breaker`},
		"twice":                     {`"epoch":12`, `"epoch":12,"epoch":12`},
	} {
		value := strings.ReplaceAll(markerText, edit[0], edit[1])
		if value == markerText {
			t.Fatalf("%s: nothing was edited", name)
		}
		if ev, err := Decode([]byte(value), nil); err == nil {
			t.Errorf("%s: taken as %+v", name, ev.Data.Marker)
		}
	}
}
