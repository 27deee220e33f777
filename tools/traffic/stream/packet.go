// Package stream sends numbered UDP packets at a steady rate and counts, at
// the far end, which numbers are lost, duplicated or out of order. A flow goes
// one way; two flows make both ways.
package stream

import (
	"encoding/binary"
	"fmt"
)

const (
	magic = 0x57656674 // "Weft"
	// HeaderBytes is the least size of a packet: magic, flow and number.
	HeaderBytes = 4 + 4 + 8
	// MaxNumber bounds the memory of a flow: 2^22 numbers are 512 KiB and, at
	// 1,000 packets a second, over an hour.
	MaxNumber = 1 << 22
)

// encode writes the header of packet number of flow. len(b) >= HeaderBytes.
func encode(b []byte, flow uint32, number uint64) {
	binary.BigEndian.PutUint32(b, magic)
	binary.BigEndian.PutUint32(b[4:], flow)
	binary.BigEndian.PutUint64(b[8:], number)
}

func decode(b []byte) (flow uint32, number uint64, err error) {
	if len(b) < HeaderBytes || binary.BigEndian.Uint32(b) != magic {
		return 0, 0, fmt.Errorf("not a numbered packet")
	}
	number = binary.BigEndian.Uint64(b[8:])
	if number >= MaxNumber {
		return 0, 0, fmt.Errorf("number %d is beyond %d", number, MaxNumber)
	}
	return binary.BigEndian.Uint32(b[4:]), number, nil
}
