package supervise

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// started serves a supervisor on a socket, as a node's process 1 does.
func started(t *testing.T) (Client, string) {
	t.Helper()
	folder := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	s := New(folder, slog.New(slog.DiscardHandler))
	client := Client{Socket: filepath.Join(folder, "s")}
	go func() { _ = s.Serve(ctx, client.Socket) }()
	t.Cleanup(func() {
		for _, d := range s.List() {
			s.Delete(d.Name)
		}
		cancel()
	})
	require.Eventually(t, func() bool { _, err := client.List(ctx); return err == nil }, 5*time.Second, time.Millisecond)
	return client, folder
}

func only(t *testing.T, c Client) Status {
	t.Helper()
	list, err := c.List(t.Context())
	require.NoError(t, err)
	require.Len(t, list, 1)
	return list[0]
}

func TestDaemonIsRestartedStoppedAndForgotten(t *testing.T) {
	client, folder := started(t)
	ctx := t.Context()
	daemon := Daemon{Name: "d", Args: []string{"/bin/sh", "-c", "echo $GREETING; exec sleep 1000"}, Env: []string{"GREETING=hello"}}
	require.NoError(t, client.Put(ctx, daemon))
	running := func() bool { return only(t, client).PID > 0 }
	greeted := func(times int) {
		t.Helper()
		require.Eventually(t, func() bool {
			log, err := os.ReadFile(filepath.Join(folder, "d.log"))
			require.NoError(t, err)
			return strings.Count(string(log), "hello\n") == times
		}, 5*time.Second, time.Millisecond, "one greeting each start")
	}
	require.Eventually(t, running, 5*time.Second, time.Millisecond)
	first := only(t, client).PID
	greeted(1)

	require.NoError(t, client.Put(ctx, daemon))
	require.Equal(t, first, only(t, client).PID, "an unchanged daemon is left alone")

	require.NoError(t, syscall.Kill(first, syscall.SIGKILL))
	require.Eventually(t, func() bool { s := only(t, client); return s.PID > 0 && s.PID != first }, 10*time.Second, 5*time.Millisecond)
	require.Equal(t, 2, only(t, client).Starts)
	require.Equal(t, "signal: killed", only(t, client).LastExit)

	greeted(2)
	pid := only(t, client).PID
	require.NoError(t, client.Stop(ctx, "d"))
	require.True(t, only(t, client).Stopped)
	require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH)

	require.NoError(t, client.Start(ctx, "d"))
	require.Eventually(t, running, 5*time.Second, time.Millisecond)
	greeted(3)

	require.NoError(t, client.Delete(ctx, "d"))
	list, err := client.List(ctx)
	require.NoError(t, err)
	require.Empty(t, list)
}

func TestProgramThatDoesNotExistIsReported(t *testing.T) {
	client, _ := started(t)
	require.NoError(t, client.Put(t.Context(), Daemon{Name: "d", Args: []string{"/nonexistent"}}))
	require.Eventually(t, func() bool { return strings.Contains(only(t, client).LastExit, "no such file") }, 5*time.Second, time.Millisecond)
	require.ErrorContains(t, client.Stop(t.Context(), "x"), `no daemon "x"`)
}

func TestSupervisorTellsItsProcess(t *testing.T) {
	client, _ := started(t)
	pid, err := client.PID()
	require.NoError(t, err)
	require.Equal(t, os.Getpid(), pid)
}

func TestLogStaysWithinItsBound(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.log")
	const limit = 1000
	log, err := openLog(path, limit)
	require.NoError(t, err)
	defer log.Close()
	line := strings.Repeat("x", 99) + "\n"
	for range 100 {
		_, err := log.Write([]byte(line))
		require.NoError(t, err)
	}
	var total int64
	for _, name := range []string{path, path + ".old"} {
		info, err := os.Stat(name)
		require.NoError(t, err)
		total += info.Size()
	}
	require.LessOrEqual(t, total, int64(limit))
	require.GreaterOrEqual(t, total, int64(limit/2))
}
