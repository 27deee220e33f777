package agentapi

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A stranger who opens connections and says nothing takes few of the places;
// somebody at another address still gets one, and so do more of those who have
// proved who they are.
func TestStrangersTakeFewPlaces(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer inner.Close()
	l := &limitedListener{Listener: inner, slots: make(chan struct{}, 4*freshLimit)}
	accepted := make(chan *limitedConn, 8*freshLimit)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- conn.(*limitedConn)
		}
	}()
	dial := func(from string) net.Conn {
		t.Helper()
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 5 * time.Second}
		conn, err := dialer.Dial("tcp", inner.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	var strangers []*limitedConn
	for range freshLimit {
		dial("127.0.0.1")
		strangers = append(strangers, <-accepted)
	}
	one := dial("127.0.0.1")
	require.NoError(t, one.SetReadDeadline(time.Now().Add(5*time.Second)))
	_, err = one.Read(make([]byte, 1))
	require.ErrorContains(t, err, "EOF", "one too many is closed at once")
	dial("127.0.0.2")
	<-accepted
	strangers[0].proved()
	dial("127.0.0.1")
	<-accepted
	require.NoError(t, strangers[1].Close())
	require.NoError(t, strangers[0].Close(), "a proved one is not counted twice")
	dial("127.0.0.1")
	<-accepted
	require.Len(t, l.slots, freshLimit+1)
	require.Equal(t, freshLimit, l.fresh[inner.Addr().(*net.TCPAddr).AddrPort().Addr()])
}

// The controller may hold more connections than a stranger.
func TestControllerIsNoStranger(t *testing.T) {
	key := newKey(t)
	s := run(t, State{Identity: identityOf(key), Listen: apiAddress})
	for range freshLimit + 8 {
		conn, err := dialAPI(t, s, key)
		require.NoError(t, err)
		t.Cleanup(func() { conn.Close() })
		response, _, err := request(conn, "GET /v1/measurements HTTP/1.1\r\nHost: a\r\n\r\n")
		require.NoError(t, err)
		require.Equal(t, 200, response.StatusCode)
	}
}
