package control

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/weft-fabric/weft/tools/traffic/bulk"
	"github.com/weft-fabric/weft/tools/traffic/calls"
	"github.com/weft-fabric/weft/tools/traffic/echo"
	"github.com/weft-fabric/weft/tools/traffic/lookup"
	"github.com/weft-fabric/weft/tools/traffic/ping"
	"github.com/weft-fabric/weft/tools/traffic/steady"
	"github.com/weft-fabric/weft/tools/traffic/stream"
)

const maxRequestBytes = 64 << 10

// handler serves the API. Jobs live as long as life, not as long as the
// request that started them.
func (s *Server) handler(life context.Context) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+PathHealth, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	mux.HandleFunc("POST "+PathEchoTCP, post(echo.TCP))
	mux.HandleFunc("POST "+PathEchoUDP, post(echo.UDP))
	mux.HandleFunc("POST "+PathLookup, post(lookup.Run))
	mux.HandleFunc("POST "+PathCalls, post(calls.Run))
	mux.HandleFunc("POST "+PathBulk, post(bulk.Transfer))
	mux.HandleFunc("POST "+PathPing, post(ping.Run))
	mux.HandleFunc("POST "+PathPingSeen, post(s.pingSeen))
	mux.HandleFunc("POST "+PathSend, post(func(_ context.Context, req stream.SendRequest) (stream.Sent, error) {
		return s.streams.start(life, req.Flow, func(ctx context.Context, progress func(stream.Sent)) (stream.Sent, error) {
			return stream.Send(ctx, req, progress)
		})
	}))
	mux.HandleFunc("POST "+PathSent, post(s.streams.report))
	mux.HandleFunc("POST "+PathStop, post(s.streams.stop))
	mux.HandleFunc("POST "+PathReceived, post(func(_ context.Context, f Flow) (stream.Received, error) {
		return s.receiver.Received(f.Flow), nil
	}))
	mux.HandleFunc("POST "+PathForget, post(func(_ context.Context, f Flow) (Flow, error) {
		s.receiver.Forget(f.Flow)
		return f, nil
	}))
	mux.HandleFunc("POST "+PathSteady, post(func(_ context.Context, req steady.Request) (steady.Report, error) {
		return s.steady.start(life, req.ID, func(ctx context.Context, progress func(steady.Report)) (steady.Report, error) {
			return steady.Run(ctx, req, progress)
		})
	}))
	mux.HandleFunc("POST "+PathSteadyNow, post(s.steady.report))
	mux.HandleFunc("POST "+PathSteadyStop, post(s.steady.stop))
	return mux
}

func (s *Server) pingSeen(_ context.Context, req PingSeen) (PingSeen, error) {
	if source, ok := s.watcher.Seen(req.Nonce); ok {
		req.Source = source.String()
	}
	return req, nil
}

// post turns a function into a handler: its request from JSON, its answer or
// its error to JSON.
func post[Request, Answer any](f func(context.Context, Request) (Answer, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var req Request
		decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequestBytes))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&req); err != nil {
			write(w, http.StatusBadRequest, Failure{Error: "read the request: " + err.Error()})
			return
		}
		answer, err := f(r.Context(), req)
		if err != nil {
			write(w, http.StatusBadGateway, Failure{Error: err.Error()})
			return
		}
		write(w, http.StatusOK, answer)
	}
}

func write(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}
