package usageevent

import (
	"encoding/json"
	"fmt"
	"slices"
)

// Kinds of cache hits: an answer that a cache gave, so that no provider was asked and nothing was used.
const (
	CacheExact    = "exact"    // the same request came before
	CacheSemantic = "semantic" // a request like it came before
)

// FlagDearerModel is what admission says of a settle that names a dearer model than was granted (Reservation.Flags).
const FlagDearerModel = "dearer_model"

// maxFlags bounds the flags of a reservation block.
const maxFlags = 8

// checkCacheHit reports why an event cannot be a cache hit of that kind, "" being none: it says that something was used,
// or that the call did not succeed.
func checkCacheHit(d Data) *Error {
	used := d.Usage != nil
	for _, q := range d.Meters {
		used = used || q.Sign() != 0
	}
	switch {
	case d.CacheHit == "":
		return nil
	case d.CacheHit != CacheExact && d.CacheHit != CacheSemantic:
		return malformed(fmt.Sprintf("cache_hit is %q, neither %s nor %s", clip(d.CacheHit), CacheExact, CacheSemantic))
	case used:
		return malformed("a cache hit with usage: what a cache answers uses nothing of the provider")
	case d.Status != "" && d.Status != "SUCCESS":
		return malformed("a cache hit whose status is " + clip(d.Status))
	}
	return nil
}

// readFlags reads the flags of a reservation block; none that is unknown, since whoever signs is of our own.
func readFlags(o object) ([]string, *Error) {
	if !o.present("flags") {
		return nil, nil
	}
	var flags []string
	if json.Unmarshal(o["flags"], &flags) != nil || len(flags) > maxFlags {
		return nil, malformed("reservation.flags is not a short list of strings")
	}
	for _, f := range flags {
		if f != FlagDearerModel {
			return nil, malformed(fmt.Sprintf("reservation.flags has %q", clip(f)))
		}
	}
	slices.Sort(flags)
	return slices.Compact(flags), nil
}
