package channel

import (
	"errors"
	"fmt"
	"time"

	channelv1 "github.com/weft-fabric/weft/apis/channel/v1"
)

// hello is our greeting.
func hello() *channelv1.Envelope {
	return &channelv1.Envelope{Body: &channelv1.Envelope_Hello{Hello: &channelv1.Hello{
		ProtocolMin: channelv1.ProtocolMin, ProtocolMax: channelv1.ProtocolMax,
	}}}
}

// awaitHello reads the other end's greeting and checks that there is a common
// protocol version. The stream must be ended after an error, which also ends
// the read that may still be going on.
func awaitHello(s stream, patience time.Duration) error {
	type result struct {
		envelope *channelv1.Envelope
		err      error
	}
	got := make(chan result, 1)
	go func() {
		envelope, err := s.Recv()
		got <- result{envelope, err}
	}()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-timer.C:
		return fmt.Errorf("the peer sent no greeting within %s", patience)
	case r := <-got:
		if r.err != nil {
			return r.err
		}
		return compatible(r.envelope.GetHello())
	}
}

func compatible(hello *channelv1.Hello) error {
	if hello == nil {
		return errors.New("the peer's first message is not a greeting")
	}
	if hello.GetProtocolMax() < channelv1.ProtocolMin || hello.GetProtocolMin() > channelv1.ProtocolMax {
		return fmt.Errorf("the peer speaks versions %d to %d of the channel protocol, this release %d to %d: upgrade the older of the two clusters",
			hello.GetProtocolMin(), hello.GetProtocolMax(), channelv1.ProtocolMin, channelv1.ProtocolMax)
	}
	return nil
}
