package main

import (
	"bytes"
	"io"
	"sync"
)

// indenter sets other programs' progress apart from the demo's own, line by
// line, so that two programs at once do not mix within a line.
type indenter struct {
	mu      sync.Mutex
	w       io.Writer
	pending []byte
}

func (i *indenter) Write(p []byte) (int, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.pending = append(i.pending, p...)
	for {
		end := bytes.IndexByte(i.pending, '\n')
		if end < 0 {
			return len(p), nil
		}
		if _, err := i.w.Write(append([]byte("          "), i.pending[:end+1]...)); err != nil {
			return 0, err
		}
		i.pending = i.pending[end+1:]
	}
}
