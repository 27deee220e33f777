// Package control is the server that a test pod runs: every kind of traffic
// server, and an HTTP API over which the pod is told to be a client of others.
// The API has no authentication; it belongs into test networks only.
package control

// Ports are offsets from the base port, so that several servers fit on one
// host.
const (
	DefaultBasePort = 7000

	EchoOffset    = 0 // TCP and UDP
	BulkOffset    = 1
	StreamOffset  = 2
	ControlOffset = 3
)

// Paths of the API. Requests and answers are the JSON of the packages named.
const (
	PathHealth   = "/healthz"
	PathEchoTCP  = "/v1/echo/tcp"      // POST echo.Request, echo.Result
	PathEchoUDP  = "/v1/echo/udp"      // POST echo.Request, echo.Result
	PathLookup   = "/v1/lookup"        // POST lookup.Request, lookup.Result
	PathCalls    = "/v1/calls"         // POST calls.Request, calls.Result
	PathBulk     = "/v1/bulk"          // POST bulk.Request, bulk.Result
	PathPing     = "/v1/ping"          // POST ping.Request, ping.Result
	PathPingSeen = "/v1/ping/seen"     // POST PingSeen, PingSeen
	PathSend     = "/v1/stream/send"   // POST stream.SendRequest, stream.Sent; returns at once
	PathSent     = "/v1/stream/sent"   // POST Flow, stream.Sent
	PathStop     = "/v1/stream/stop"   // POST Flow, stream.Sent; waits for the last packet
	PathReceived = "/v1/stream/recv"   // POST Flow, stream.Received
	PathForget   = "/v1/stream/forget" // POST Flow, Flow

	PathSteady     = "/v1/steady"      // POST steady.Request, steady.Report; returns at once
	PathSteadyNow  = "/v1/steady/now"  // POST Flow, steady.Report
	PathSteadyStop = "/v1/steady/stop" // POST Flow, steady.Report; waits for the last byte
)

// Flow names a stream, or a steady connection.
type Flow struct {
	Flow uint32 `json:"flow"`
}

// PingSeen asks for, and answers with, the source of a ping run; Source is
// empty if none was seen.
type PingSeen struct {
	Nonce  uint64 `json:"nonce"`
	Source string `json:"source,omitempty"`
}

// Failure is the body of every answer other than 200.
type Failure struct {
	Error string `json:"error"`
}
