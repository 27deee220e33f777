// Package patient lets a Kubernetes client sit out an outage of its API server.
//
// client-go's reflectors double their pause after each failure, to half a
// minute and more; after an outage of seconds, what an agent or a controller
// sees would stay stale for a minute. A patient transport tries a read that
// could not be sent again every second, so that reading goes on as soon as the
// API server is back.
package patient

import (
	"errors"
	"io"
	"net/http"
	"syscall"
	"time"
)

const (
	// pause between two attempts.
	pause = time.Second
	// longest that one read waits. It is beyond the two minutes after which a
	// reflector begins its pauses anew, so they stay short for ever.
	longest = 150 * time.Second
)

// Wrap makes a transport patient; it fits rest.Config.Wrap. Only reads without
// a body are tried again, and only if no answer has begun.
func Wrap(next http.RoundTripper) http.RoundTripper {
	return &transport{next: next, pause: pause, longest: longest}
}

type transport struct {
	next           http.RoundTripper
	pause, longest time.Duration
}

func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(request)
	if err == nil || request.Method != http.MethodGet || (request.Body != nil && request.Body != http.NoBody) {
		return response, err
	}
	ticker := time.NewTicker(t.pause)
	defer ticker.Stop()
	for end := time.Now().Add(t.longest); err != nil && away(err) && time.Now().Before(end); {
		select {
		case <-request.Context().Done():
			return nil, err
		case <-ticker.C:
		}
		response, err = t.next.RoundTrip(request)
	}
	return response, err
}

// away says whether nobody answered: refused while the server restarts, reset
// or cut off as it goes.
func away(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
