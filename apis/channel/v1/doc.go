// Package channelv1 is the wire format of the peer channel, generated from
// channel.proto, and the protocol versions that this release speaks.
//
//go:generate protoc -I . --go_out=. --go_opt=paths=source_relative --go-grpc_out=. --go-grpc_opt=paths=source_relative channel.proto
package channelv1

// Protocol versions that this release speaks. A release speaks at least its own
// and the one before, so that neighbors one version apart interoperate.
const (
	ProtocolMin = 1
	ProtocolMax = 1
)
