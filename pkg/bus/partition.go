package bus

import "encoding/binary"

// PartitionFor returns the partition of a key among n: Kafka's default (murmur2, sign bit cleared, modulo n), so that
// Java clients agree. librdkafka's default (consistent_random, CRC32) does not. n < 1 yields 0. An empty key has a
// fixed partition too; there is no random one.
func PartitionFor(key []byte, n int) int32 {
	if n < 1 {
		return 0
	}
	return int32((murmur2(key) & 0x7fffffff) % uint32(n))
}

// murmur2 is Austin Appleby's 32-bit MurmurHash2 with the seed that Kafka fixed for its partitioner.
func murmur2(data []byte) uint32 {
	const (
		seed = 0x9747b28c
		mult = 0x5bd1e995
		rot  = 24
	)
	h := uint32(seed) ^ uint32(len(data))
	for ; len(data) >= 4; data = data[4:] {
		k := binary.LittleEndian.Uint32(data) * mult
		k = (k ^ k>>rot) * mult
		h = h*mult ^ k
	}
	switch len(data) {
	case 3:
		h ^= uint32(data[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(data[1]) << 8
		fallthrough
	case 1:
		h = (h ^ uint32(data[0])) * mult
	}
	h = (h ^ h>>13) * mult
	return h ^ h>>15
}
