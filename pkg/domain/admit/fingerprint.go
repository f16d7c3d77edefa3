package admit

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
)

// Fingerprint identifies the content of a reservation: the first 16 bytes of
// a SHA-256. Two requests with the same fingerprint are the same request.
type Fingerprint [16]byte

// Content is everything of a reservation that its repeat must state alike.
// What the service adds (prices, limits, time) is not part of it.
type Content struct {
	Provider, Model, Effect string
	// Meters are the estimate's quantities by meter, as decimal texts.
	Meters                          []Meter
	Root, Agent, Parent, CostCentre string
	Depth                           int64
	LeaseSeconds                    int64
}

// Meter is one quantity of an estimate.
type Meter struct{ Name, Quantity string }

// Fingerprint hashes the content. Every text is written with its length, so
// no two contents share an encoding; meters are taken in the order of names.
func (c Content) Fingerprint() Fingerprint {
	var b []byte
	text := func(s string) {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	for _, s := range []string{c.Provider, c.Model, c.Effect, c.Root, c.Agent, c.Parent, c.CostCentre} {
		text(s)
	}
	b = binary.AppendVarint(b, c.Depth)
	b = binary.AppendVarint(b, c.LeaseSeconds)
	meters := slices.Clone(c.Meters)
	slices.SortFunc(meters, func(a, b Meter) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Quantity, b.Quantity))
	})
	for _, m := range meters {
		text(m.Name)
		text(m.Quantity)
	}
	sum := sha256.Sum256(b)
	return Fingerprint(sum[:16])
}
