// Package testbed drives a lab of real Kubernetes clusters with Weft in it:
// through the programs lab, weftctl and traffic as a user would, and through
// the clusters' API servers. The demo and the end-to-end tests share it.
package testbed

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// errorTailBytes of a failed program's output go into the error.
const errorTailBytes = 2000

// output runs a program with input and returns its standard output. An error
// carries the end of what the program said.
func output(ctx context.Context, input []byte, name string, args ...string) ([]byte, error) {
	cmd := command(ctx, name, args...)
	var out, said bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), &out, &said
	if err := cmd.Run(); err != nil {
		return out.Bytes(), fmt.Errorf("run %s: %w", describe(name, args), explain(err, out.Bytes(), said.Bytes()))
	}
	return out.Bytes(), nil
}

// follow runs a program and copies what it says to w.
func follow(ctx context.Context, w io.Writer, name string, args ...string) error {
	cmd := command(ctx, name, args...)
	tail := &tailWriter{}
	cmd.Stdout = io.MultiWriter(w, tail)
	cmd.Stderr = cmd.Stdout
	if err := cmd.Run(); err != nil {
		// The rest has been seen on w.
		return fmt.Errorf("run %s: %w", describe(name, args), explain(err, nil, lastLine(tail.data)))
	}
	return nil
}

// command ends the program with SIGTERM when ctx ends, and kills it if it does
// not obey.
func command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 20 * time.Second
	return cmd
}

func describe(name string, args []string) string {
	return strings.Join(append([]string{filepath.Base(name)}, args...), " ")
}

// explain prefers what the program said over its exit code.
func explain(err error, out, said []byte) error {
	var failure struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(out, &failure) == nil && failure.Error != "" {
		return errors.New(failure.Error)
	}
	text := strings.TrimSpace(string(said[max(0, len(said)-errorTailBytes):]))
	if text == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, text)
}

func lastLine(text []byte) []byte {
	text = bytes.TrimSpace(text)
	return text[bytes.LastIndexByte(text, '\n')+1:]
}

// tailWriter keeps the end of what is written to it.
type tailWriter struct{ data []byte }

func (t *tailWriter) Write(p []byte) (int, error) {
	t.data = append(t.data, p...)
	t.data = t.data[max(0, len(t.data)-errorTailBytes):]
	return len(p), nil
}
