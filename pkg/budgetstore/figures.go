package budgetstore

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
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

// idHash is what the list of ended ids keeps of an id: 8 bytes of its SHA-256.
func idHash(id string) []byte {
	sum := sha256.Sum256([]byte(id))
	return sum[:8]
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

// err reports a reply that was shorter than its format.
func (f *figures) err(name string) error {
	if f.short {
		return fmt.Errorf("%w: %s: reply is too short", ErrUnavailable, name)
	}
	return nil
}
