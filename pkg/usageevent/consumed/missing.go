package consumed

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weir-project/weir/pkg/usageevent"
)

// Bounds of what a dead letter says about a usage object: names of members, and their bytes each.
const (
	maxToldNames = 8
	maxToldName  = 40
)

// missing says in what way an event has no usage, for whoever sent it.
func missing(d usageevent.Data) string {
	switch {
	case d.Usage != nil:
		names := namesIn(d.Usage)
		if len(names) == 0 {
			return "usage has nothing in it"
		}
		api := "its usual api"
		if d.API != "" {
			api = fmt.Sprintf("api %.40q", d.API)
		}
		return fmt.Sprintf("usage has no count that provider %.40q has in %s; what it has is %s", d.Provider, api, strings.Join(names, ", "))
	case d.Meters != nil:
		return "meters has nothing in it"
	default:
		return "neither usage nor meters"
	}
}

// namesIn are the members of a provider's object or, where it is a whole response, of the usage object in it.
func namesIn(raw json.RawMessage) []string {
	var o, inner map[string]json.RawMessage
	if json.Unmarshal(raw, &o) != nil {
		return nil
	}
	// One level deep: whoever nests it in itself without end must not have all of it read at each level.
	if json.Unmarshal(o["usage"], &inner) == nil && len(inner) > 0 {
		o = inner
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(o)) {
		if len(out) == maxToldNames {
			return append(out, fmt.Sprintf("and %d more", len(o)-maxToldNames))
		}
		out = append(out, fmt.Sprintf("%.*q", maxToldName, name))
	}
	return out
}
