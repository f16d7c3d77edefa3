package litellm

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/weir-project/weir/pkg/domain/pricing"
)

// Bounds of a price file.
const (
	MaxFile  = 64 << 20 // bytes
	MaxRows  = 100_000
	maxRow   = 64 << 10 // bytes of one row
	maxField = 500      // fields of one row
)

// ErrFile says that the bytes are not a price file at all.
var ErrFile = errors.New("not a price file")

// Parse reads a price file. source is recorded in each version. Rows that
// cannot be read are reported and left out; only a file that is not a JSON
// object, or is beyond the bounds, is an error (which wraps ErrFile).
func Parse(data []byte, source string) ([]pricing.Version, []Oddity, error) {
	if len(data) > MaxFile {
		return nil, nil, fmt.Errorf("%w: %d bytes", ErrFile, len(data))
	}
	entries, err := object(data, MaxRows)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrFile, err)
	}
	sum := sha256.Sum256(data)
	var rows []pricing.Version
	var odd []Oddity
	seen := map[string]bool{}
	for _, e := range entries {
		if reason := skip(e, seen[e.key]); reason != "" {
			odd = append(odd, Oddity{Row: e.key, Kind: Skipped, Reason: reason})
			continue
		}
		seen[e.key] = true
		r := newRow(e)
		if r.read(e.value) {
			r.version.Source, r.version.SourceHash = source, hex.EncodeToString(sum[:])
			rows = append(rows, r.version)
		}
		odd = append(odd, r.odd...)
	}
	sortOddities(odd)
	return rows, odd, nil
}

func skip(e entry, seen bool) string {
	switch {
	case e.key == "sample_spec":
		return "describes the fields, is not a model"
	case e.key == "fallback_generalizations":
		return "rules for names, no prices"
	case len(e.value) == 0 || e.value[0] != '{':
		return "not an object"
	case len(e.value) > maxRow:
		return fmt.Sprintf("larger than %d bytes", maxRow)
	case seen:
		return "second row of the same name"
	}
	return ""
}

// entry is one member of a JSON object, its value as written.
type entry struct {
	key   string
	value json.RawMessage
}

// object lists the members of a JSON object in their order, repeated keys
// included.
func object(data []byte, limit int) ([]entry, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("no JSON object")
	}
	var out []entry
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		if len(out) == limit {
			return nil, fmt.Errorf("more than %d members", limit)
		}
		key, _ := t.(string)
		out = append(out, entry{key, value})
	}
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("text after the object")
	}
	return out, nil
}
