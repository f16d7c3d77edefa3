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
	var usual [512]byte
	b := usual[:0]
	for _, s := range [...]string{c.Provider, c.Model, c.Effect, c.Root, c.Agent, c.Parent, c.CostCentre} {
		b = appendText(b, s)
	}
	b = binary.AppendVarint(b, c.Depth)
	b = binary.AppendVarint(b, c.LeaseSeconds)
	meters := c.Meters
	if !slices.IsSortedFunc(meters, Meter.compare) {
		meters = slices.SortedFunc(slices.Values(meters), Meter.compare)
	}
	for _, m := range meters {
		b = appendText(appendText(b, m.Name), m.Quantity)
	}
	sum := sha256.Sum256(b)
	return Fingerprint(sum[:16])
}

// compare orders meters by name, then by text.
func (m Meter) compare(o Meter) int {
	return cmp.Or(cmp.Compare(m.Name, o.Name), cmp.Compare(m.Quantity, o.Quantity))
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}
