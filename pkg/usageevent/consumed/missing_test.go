package consumed

import (
	"strings"
	"testing"

	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/usageevent"
)

// Goal: the dead letter of an event without usage says what was there instead, within bounds.
func TestWhatIsMissingIsSaid(t *testing.T) {
	long := strings.Repeat("x", 5000)
	for _, c := range []struct {
		data usageevent.Data
		want string
	}{
		{usageevent.Data{}, "neither usage nor meters"},
		{usageevent.Data{Meters: map[string]money.Decimal{}}, "meters has nothing in it"},
		{usageevent.Data{Usage: []byte(`{}`)}, "usage has nothing in it"},
		{usageevent.Data{Provider: "openai", API: "chat.completions", Usage: []byte(`{"tokens_out":4,"tokens_in":3}`)},
			`usage has no count that provider "openai" has in api "chat.completions"; what it has is "tokens_in", "tokens_out"`},
		{usageevent.Data{Provider: "openai", Usage: []byte(`{"id":"c1","usage":{"tokens_in":3}}`)},
			`usage has no count that provider "openai" has in its usual api; what it has is "tokens_in"`},
		{usageevent.Data{Provider: "openai", Usage: []byte(strings.Repeat(`{"usage":`, 9000) + `{"tokens_in":3}` + strings.Repeat(`}`, 9000))},
			`usage has no count that provider "openai" has in its usual api; what it has is "usage"`},
		{usageevent.Data{Provider: "openai", Usage: []byte(`{"id":"c1","usage":{}}`)},
			`usage has no count that provider "openai" has in its usual api; what it has is "id", "usage"`},
		{usageevent.Data{Provider: "openai", Usage: []byte(`{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1,"j":1}`)},
			`usage has no count that provider "openai" has in its usual api; what it has is "a", "b", "c", "d", "e", "f", "g", "h", and 2 more`},
		{usageevent.Data{Provider: "openai", Usage: []byte(`{"` + long + `":1}`)},
			`usage has no count that provider "openai" has in its usual api; what it has is "` + long[:maxToldName] + `"`},
	} {
		if got := missing(c.data); got != c.want {
			t.Errorf("%s\nwant\n%s", got, c.want)
		}
	}
}
