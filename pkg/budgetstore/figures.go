package budgetstore

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/bits"
	"time"

	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/money"
)

// packed appends whole numbers as 8-byte little-endian integers, Lua's
// struct format <i8.
func packed(b []byte, numbers ...int64) []byte {
	for _, n := range numbers {
		b = binary.LittleEndian.AppendUint64(b, uint64(n))
	}
	return b
}

// doubles appends whole numbers as Lua's own, which a script reads in half the
// time of integers: exact up to 2^53, the bound of every counter.
func doubles(b []byte, numbers ...int64) []byte {
	for _, n := range numbers {
		b = binary.LittleEndian.AppendUint64(b, toDouble(n))
	}
	return b
}

// Fields of an IEEE 754 double.
const (
	fractionBits = 52
	signBit      = 1 << 63
	exponentBias = 1023
)

// toDouble is the IEEE 754 form of n, made from integers so that no rounding
// can slip in; beyond 2^53 it is 2^53.
func toDouble(n int64) uint64 {
	if n == 0 {
		return 0
	}
	var sign uint64
	if n < 0 {
		sign, n = signBit, -n
	}
	m := min(uint64(n), 1<<(fractionBits+1))
	exponent := bits.Len64(m) - 1
	if exponent > fractionBits {
		return sign | uint64(exponent+exponentBias)<<fractionBits
	}
	fraction := m << (fractionBits - exponent) &^ (1 << fractionBits)
	return sign | uint64(exponent+exponentBias)<<fractionBits | fraction
}

// fromDouble is the inverse; a fraction is cut off, what is beyond 2^53 is 2^53.
func fromDouble(b uint64) int64 {
	exponent := int(b>>fractionBits&0x7ff) - exponentBias
	if exponent < 0 {
		return 0
	}
	n := int64(1 << (fractionBits + 1))
	if exponent <= fractionBits {
		n = int64((b&(1<<fractionBits-1) | 1<<fractionBits) >> (fractionBits - exponent))
	}
	if b&signBit != 0 {
		return -n
	}
	return n
}

// idHash is what the list of ended ids keeps of an id: 6 bytes of its SHA-256.
func idHash(id string) []byte {
	sum := sha256.Sum256([]byte(id))
	return sum[:6]
}

// figures reads a packed reply. A short one reads as zeros and sets short.
type figures struct {
	b     []byte
	short bool
}

func (f *figures) bytes(n int) []byte {
	if len(f.b) < n {
		f.short = true
		f.b = nil
		return make([]byte, n)
	}
	head := f.b[:n]
	f.b = f.b[n:]
	return head
}

func (f *figures) byte() byte       { return f.bytes(1)[0] }
func (f *figures) int() int64       { return int64(binary.LittleEndian.Uint64(f.bytes(8))) }
func (f *figures) label() int32     { return int32(binary.LittleEndian.Uint32(f.bytes(4))) }
func (f *figures) double() int64    { return fromDouble(uint64(f.int())) }
func (f *figures) nano() money.Nano { return money.Nano(f.int()) }

// time reads microseconds since 1970; 0 is the zero time.
func (f *figures) time() time.Time {
	if n := f.int(); n != 0 {
		return time.UnixMicro(n).UTC()
	}
	return time.Time{}
}

func (f *figures) estimate() admit.Estimate {
	return admit.Estimate{Nanos: f.nano(), InputTokens: f.int(), OutputTokens: f.int()}
}

// estimateOfDoubles is estimate where a script passes on what it has as numbers.
func (f *figures) estimateOfDoubles() admit.Estimate {
	return admit.Estimate{Nanos: money.Nano(f.double()), InputTokens: f.double(), OutputTokens: f.double()}
}

// err reports a reply that was shorter than its format.
func (f *figures) err(name string) error {
	if f.short {
		return fmt.Errorf("%w: %s: reply is too short", ErrUnavailable, name)
	}
	return nil
}

// uvarint reads a number that Go wrote; scripts only carry it.
func (f *figures) uvarint() int64 {
	n, size := binary.Uvarint(f.b)
	if size <= 0 {
		f.short, f.b = true, nil
		return 0
	}
	f.b = f.b[size:]
	return int64(n)
}
