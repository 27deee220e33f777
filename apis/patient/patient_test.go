package patient

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// failing fails a number of times before it answers.
type failing struct {
	failures int
	err      error
	calls    int
}

func (f *failing) RoundTrip(*http.Request) (*http.Response, error) {
	if f.calls++; f.calls <= f.failures {
		return nil, f.err
	}
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

func send(t *testing.T, ctx context.Context, method string, f *failing, longest time.Duration) error {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, method, "http://server/api", nil)
	require.NoError(t, err)
	response, err := (&transport{next: f, pause: time.Millisecond, longest: longest}).RoundTrip(request)
	if err == nil {
		require.NoError(t, response.Body.Close())
	}
	return err
}

func TestReadsWaitForTheServer(t *testing.T) {
	f := &failing{failures: 5, err: syscall.ECONNREFUSED}
	require.NoError(t, send(t, t.Context(), http.MethodGet, f, time.Minute))
	require.Equal(t, 6, f.calls)
}

func TestWritesFailAtOnce(t *testing.T) {
	f := &failing{failures: 1, err: syscall.ECONNREFUSED}
	require.ErrorIs(t, send(t, t.Context(), http.MethodPatch, f, time.Minute), syscall.ECONNREFUSED)
	require.Equal(t, 1, f.calls)
}

func TestOtherErrorsFailAtOnce(t *testing.T) {
	f := &failing{failures: 1, err: errors.New("certificate signed by unknown authority")}
	require.ErrorContains(t, send(t, t.Context(), http.MethodGet, f, time.Minute), "unknown authority")
	require.Equal(t, 1, f.calls)
}

func TestWaitingEnds(t *testing.T) {
	f := &failing{failures: 1 << 30, err: syscall.ECONNRESET}
	require.ErrorIs(t, send(t, t.Context(), http.MethodGet, f, 20*time.Millisecond), syscall.ECONNRESET)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f = &failing{failures: 1 << 30, err: syscall.ECONNREFUSED}
	require.ErrorIs(t, send(t, ctx, http.MethodGet, f, time.Minute), syscall.ECONNREFUSED)
	require.Equal(t, 1, f.calls)
}

func TestRequestsWithABodyFailAtOnce(t *testing.T) {
	f := &failing{failures: 1, err: syscall.ECONNREFUSED}
	request, err := http.NewRequest(http.MethodGet, "http://server/api", strings.NewReader("x"))
	require.NoError(t, err)
	_, err = (&transport{next: f, pause: time.Millisecond, longest: time.Minute}).RoundTrip(request)
	require.Error(t, err)
	require.Equal(t, 1, f.calls)
}
