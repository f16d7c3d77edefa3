package admission

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/weir-project/weir/pkg/domain/ladder"
	"github.com/weir-project/weir/pkg/domain/money"
)

// What a hold keeps of its call, and with it the receipt and the row of its end, is written as compactly as it can be read
// by hand: every reservation sends it to Redis, signs it and sends it to the caller, each at so much a byte. A version, flags,
// and then the members in the order of append: texts and lists with their length before them, amounts as decimal texts.
//
// Rows stay for ever, so decodeCall reads every version there was. Before the first there was JSON.

// keptVersion is the first byte; that of JSON is '{'.
const keptVersion = 1

// The bits of the second byte.
const (
	keptDearest  = 1 << iota
	keptSaving   // the cheaper model's members are there, behind the others
	keptBranches // the branches are there, at the end
)

// errKept is what decodeCall's errors wrap.
var errKept = errors.New("admission: what a hold keeps does not decode")

// encode is what decodeCall reads. The same call gives the same bytes.
func (c call) encode() []byte { return c.append(make([]byte, 0, 256)) }

func (c call) append(b []byte) []byte {
	var flags byte
	if c.Dearest {
		flags |= keptDearest
	}
	if c.Saving != nil {
		flags |= keptSaving
	}
	if c.Branches != "" {
		flags |= keptBranches
	}
	b = append(b, keptVersion, flags)
	b = keepTexts(b, c.Provider, c.Model, c.PriceVersion)
	b = keepUSD(b, c.EstimateUSD)
	b = keepMeters(b, c.Meters)
	b = keepTexts(b, c.Effect, c.Root, c.ParentAgent, c.Agent, c.CostCenter, c.APIKey, c.Scopes, c.Asked, string(c.Language))
	b = binary.AppendVarint(b, int64(c.Depth))
	b = binary.AppendVarint(b, c.Plan)
	if s := c.Saving; s != nil {
		b = keepTexts(b, s.Model, s.PriceVersion)
		b = keepUSD(b, s.EstimateUSD)
		b = keepMeters(b, s.Meters)
	}
	if c.Branches != "" {
		b = keepTexts(b, c.Branches)
	}
	return b
}

func keepTexts(b []byte, texts ...string) []byte {
	for _, s := range texts {
		b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
	}
	return b
}

func keepUSD(b []byte, a money.USD) []byte {
	at := len(b)
	b, _ = a.AppendText(append(b, 0)) // cannot fail
	return sized(b, at)
}

// sized sets the byte at to the length of what follows it. A decimal text has fewer than 128 bytes.
func sized(b []byte, at int) []byte {
	b[at] = byte(len(b) - at - 1)
	return b
}

// keepMeters appends how many there are and one, 0 for nil, and the quantities by name.
func keepMeters(b []byte, meters map[string]money.Decimal) []byte {
	if meters == nil {
		return append(b, 0)
	}
	b = binary.AppendUvarint(b, uint64(len(meters))+1)
	var usual [4]string
	names := usual[:0]
	for name := range meters {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		b = append(keepTexts(b, name), 0)
		at := len(b) - 1
		b, _ = meters[name].AppendText(b) // cannot fail
		b = sized(b, at)
	}
	return b
}

// decodeCall reads what a hold, a receipt or a row keeps, of this version or an earlier one.
func decodeCall(b []byte) (call, error) {
	if len(b) > 0 && b[0] == '{' {
		var c call
		if err := json.Unmarshal(b, &c); err != nil {
			return call{}, fmt.Errorf("%w: %w", errKept, err)
		}
		return c, nil
	}
	var c call
	if len(b) < 2 || b[0] != keptVersion || b[1]&^(keptDearest|keptSaving|keptBranches) != 0 {
		return call{}, fmt.Errorf("%w: not a version that is known here", errKept)
	}
	flags, r := b[1], keptReader{rest: string(b[2:])}
	c.Dearest = flags&keptDearest != 0
	r.texts(&c.Provider, &c.Model, &c.PriceVersion)
	c.EstimateUSD, c.Meters = r.usd(), r.meters()
	var language string
	r.texts(&c.Effect, &c.Root, &c.ParentAgent, &c.Agent, &c.CostCenter, &c.APIKey, &c.Scopes, &c.Asked, &language)
	c.Language, c.Depth, c.Plan = ladder.Language(language), int(r.varint()), r.varint()
	if flags&keptSaving != 0 {
		c.Saving = &quoted{}
		r.texts(&c.Saving.Model, &c.Saving.PriceVersion)
		c.Saving.EstimateUSD, c.Saving.Meters = r.usd(), r.meters()
	}
	if flags&keptBranches != 0 {
		r.texts(&c.Branches)
		r.bad = r.bad || c.Branches == ""
	}
	if r.bad || r.rest != "" {
		return call{}, fmt.Errorf("%w: %d bytes", errKept, len(b))
	}
	return c, nil
}

// keptReader reads members one after the other. After one that is not there, bad is set and all others are zero.
type keptReader struct {
	rest string // shares the memory of all texts that are read
	bad  bool
}

// texts reads strings, each with its length before it.
func (r *keptReader) texts(into ...*string) {
	for _, s := range into {
		*s = r.text()
	}
}

func (r *keptReader) text() string {
	n := r.uvarint()
	if n > uint64(len(r.rest)) {
		r.fail()
		return ""
	}
	s := r.rest[:n]
	r.rest = r.rest[n:]
	return s
}

func (r *keptReader) fail() { r.bad, r.rest = true, "" }

func (r *keptReader) uvarint() uint64 {
	if r.rest != "" && r.rest[0] < 0x80 { // one byte, as nearly all are
		n := uint64(r.rest[0])
		r.rest = r.rest[1:]
		return n
	}
	var window [binary.MaxVarintLen64]byte
	n, size := binary.Uvarint(window[:copy(window[:], r.rest)])
	if size <= 0 {
		r.fail()
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

func (r *keptReader) varint() int64 {
	n := r.uvarint() // zigzag, as binary.AppendVarint has it
	return int64(n>>1) ^ -int64(n&1)
}

func (r *keptReader) usd() money.USD {
	a, err := money.ParseUSD(r.text())
	if err != nil {
		r.fail()
	}
	return a
}

func (r *keptReader) meters() map[string]money.Decimal {
	n := r.uvarint()
	if n == 0 {
		return nil
	}
	if n--; n > uint64(len(r.rest)) { // each takes more than a byte
		r.fail()
		return nil
	}
	meters := make(map[string]money.Decimal, n)
	for range n {
		name := r.text()
		q, err := money.ParseDecimal(r.text())
		if err != nil {
			r.fail()
			return nil
		}
		meters[name] = q
	}
	if uint64(len(meters)) < n { // one is there twice
		r.fail()
		return nil
	}
	return meters
}
