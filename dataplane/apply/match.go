package apply

import (
	"encoding/binary"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// The words of which rules are made. Each returns expressions that end the rule
// if they do not match; register 1 is scratch.

// all joins matches and an action into a rule.
func all(comment string, parts ...[]expr.Any) ruleSpec {
	rule := ruleSpec{comment: comment}
	for _, part := range parts {
		rule.exprs = append(rule.exprs, part...)
	}
	return rule
}

func equal(data []byte) expr.Any { return &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: data} }

func isIPv4() []expr.Any {
	return []expr.Any{&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1}, equal([]byte{unix.NFPROTO_IPV4})}
}

func isIPv6() []expr.Any {
	return []expr.Any{&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1}, equal([]byte{unix.NFPROTO_IPV6})}
}

func protocol(number byte) []expr.Any {
	return []expr.Any{&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}, equal([]byte{number})}
}

func transport(offset, length uint32) expr.Any {
	return &expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: offset, Len: length}
}

func network(offset, length uint32) expr.Any {
	return &expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: length}
}

func destinationPort(proto byte, port uint16) []expr.Any {
	return append(protocol(proto), transport(2, 2), equal(binary.BigEndian.AppendUint16(nil, port)))
}

func destinationPortIn(proto byte, set string) []expr.Any {
	return append(protocol(proto), transport(2, 2), &expr.Lookup{SourceRegister: 1, SetName: set})
}

func source(set string) []expr.Any {
	return append(isIPv4(), network(12, 4), &expr.Lookup{SourceRegister: 1, SetName: set})
}

func destination(set string) []expr.Any {
	return append(isIPv4(), network(16, 4), &expr.Lookup{SourceRegister: 1, SetName: set})
}

func notDestination(set string) []expr.Any {
	return append(isIPv4(), network(16, 4), &expr.Lookup{SourceRegister: 1, SetName: set, Invert: true})
}

// notOpening matches TCP segments other than the first of a connection.
func notOpening() []expr.Any {
	const syn, rst, ack = 0x02, 0x04, 0x10
	return append(protocol(unix.IPPROTO_TCP), transport(13, 1),
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 1, Mask: []byte{syn | rst | ack}, Xor: []byte{0}},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: []byte{syn}})
}

func destination6(set string) []expr.Any {
	return append(isIPv6(), network(24, 16), &expr.Lookup{SourceRegister: 1, SetName: set})
}

// toThisNode matches packets for a local address (before routing).
func toThisNode() []expr.Any {
	return []expr.Any{
		&expr.Fib{Register: 1, ResultADDRTYPE: true, FlagDADDR: true},
		equal(binaryutil.NativeEndian.PutUint32(unix.RTN_LOCAL)),
	}
}

func from(device string) []expr.Any {
	return []expr.Any{&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: 1}, equal(deviceName(device))}
}

func notFrom(device string) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: 1},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: deviceName(device)},
	}
}

func fromLane() []expr.Any { return laneName(expr.CmpOpEq) }

func notFromLane() []expr.Any { return laneName(expr.CmpOpNeq) }

// laneName compares the incoming device's name with what all lanes' begin with:
// "weft" and a digit, whose upper four bits are 3.
func laneName(op expr.CmpOp) []expr.Any {
	mask := make([]byte, unix.IFNAMSIZ)
	copy(mask, "\xff\xff\xff\xff\xf0")
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: unix.IFNAMSIZ, Mask: mask, Xor: make([]byte, unix.IFNAMSIZ)},
		&expr.Cmp{Op: op, Register: 1, Data: deviceName("weft0")},
	}
}

func to(device string) []expr.Any {
	return []expr.Any{&expr.Meta{Key: expr.MetaKeyOIFNAME, Register: 1}, equal(deviceName(device))}
}

// tracked matches any of the connection tracking states.
func tracked(states uint32) []expr.Any {
	return []expr.Any{
		&expr.Ct{Key: expr.CtKeySTATE, Register: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4,
			Mask: binaryutil.NativeEndian.PutUint32(states), Xor: binaryutil.NativeEndian.PutUint32(0)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: binaryutil.NativeEndian.PutUint32(0)},
	}
}

// isFirstFragment matches IPv4 packets with More Fragments set and offset 0.
func isFirstFragment() []expr.Any {
	return append(isIPv4(), network(6, 2),
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 2, Mask: []byte{0x3f, 0xff}, Xor: []byte{0, 0}},
		equal([]byte{0x20, 0x00}))
}

func accept() []expr.Any { return []expr.Any{&expr.Verdict{Kind: expr.VerdictAccept}} }

func gotoChain(chain string) []expr.Any {
	return []expr.Any{&expr.Verdict{Kind: expr.VerdictGoto, Chain: chain}}
}

// drop counts under the reason's name.
func drop(reason string) []expr.Any {
	return []expr.Any{
		&expr.Objref{Type: int(nftables.ObjTypeCounter), Name: reason},
		&expr.Verdict{Kind: expr.VerdictDrop},
	}
}
