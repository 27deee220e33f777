package supervise

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Serve answers on a Unix socket until the context ends.
func (s *Supervisor) Serve(ctx context.Context, socket string) error {
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove old socket: %w", err)
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", socket, err)
	}
	server := &http.Server{Handler: s.handler(), ReadHeaderTimeout: 5 * time.Second}
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	return server.Serve(listener)
}

func (s *Supervisor) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /daemons", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(s.List())
	})
	mux.HandleFunc("PUT /daemons/{name}", func(w http.ResponseWriter, r *http.Request) {
		var spec Daemon
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&spec); err != nil {
			answer(w, err)
			return
		}
		spec.Name = r.PathValue("name")
		answer(w, s.Put(spec))
	})
	mux.HandleFunc("POST /daemons/{name}/stop", func(w http.ResponseWriter, r *http.Request) {
		answer(w, s.Stop(r.PathValue("name")))
	})
	mux.HandleFunc("POST /daemons/{name}/start", func(w http.ResponseWriter, r *http.Request) {
		answer(w, s.Start(r.PathValue("name")))
	})
	mux.HandleFunc("DELETE /daemons/{name}", func(w http.ResponseWriter, r *http.Request) {
		s.Delete(r.PathValue("name"))
		answer(w, nil)
	})
	return mux
}

func answer(w http.ResponseWriter, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
}

// Client talks to a supervisor.
type Client struct{ Socket string }

func (c Client) do(ctx context.Context, method, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", c.Socket)
	}}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, "http://supervisor"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return fmt.Errorf("ask the supervisor at %s: %w", c.Socket, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		message, _ := io.ReadAll(io.LimitReader(response.Body, 4096))
		return fmt.Errorf("supervisor at %s: %s", c.Socket, bytes.TrimSpace(message))
	}
	if out == nil {
		return nil
	}
	return json.NewDecoder(response.Body).Decode(out)
}

// List returns the state of all daemons; an error means that the supervisor does not live.
func (c Client) List(ctx context.Context) ([]Status, error) {
	var list []Status
	err := c.do(ctx, "GET", "/daemons", nil, &list)
	return list, err
}

// Put starts a daemon, or restarts it if it was specified differently.
func (c Client) Put(ctx context.Context, d Daemon) error {
	return c.do(ctx, "PUT", "/daemons/"+d.Name, d, nil)
}

// Stop ends a daemon until Start.
func (c Client) Stop(ctx context.Context, name string) error {
	return c.do(ctx, "POST", "/daemons/"+name+"/stop", nil, nil)
}

// Start undoes Stop.
func (c Client) Start(ctx context.Context, name string) error {
	return c.do(ctx, "POST", "/daemons/"+name+"/start", nil, nil)
}

// Delete ends a daemon for good.
func (c Client) Delete(ctx context.Context, name string) error {
	return c.do(ctx, "DELETE", "/daemons/"+name, nil, nil)
}

// PID returns the supervisor's process id as this process sees it, whatever
// PID namespace the supervisor is in (SO_PEERCRED translates).
func (c Client) PID() (int, error) {
	conn, err := net.Dial("unix", c.Socket)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return 0, err
	}
	if credErr != nil {
		return 0, fmt.Errorf("read the supervisor's process id: %w", credErr)
	}
	return int(cred.Pid), nil
}
