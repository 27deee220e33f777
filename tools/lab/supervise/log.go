package supervise

import (
	"fmt"
	"io"
	"os"
	"sync"
)

// rotatingLog is a file of bounded size: at half its limit it is renamed to
// <name>.old (replacing an older one) and begun again.
type rotatingLog struct {
	path  string
	limit int64

	mu   sync.Mutex
	file *os.File
	size int64
}

// OpenLog opens a log file of bounded size for the supervisor's own messages.
func OpenLog(path string) (io.Writer, error) { return openLog(path, logBytes) }

func openLog(path string, limit int64) (*rotatingLog, error) {
	l := &rotatingLog{path: path, limit: limit}
	return l, l.open()
}

func (l *rotatingLog) open() error {
	file, err := os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	info, err := file.Stat()
	if err != nil {
		_ = file.Close()
		return fmt.Errorf("read size of log %s: %w", l.path, err)
	}
	l.file, l.size = file, info.Size()
	return nil
}

// Write appends. A log that cannot be rotated or written loses lines, never the daemon.
func (l *rotatingLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size+int64(len(p)) > l.limit/2 && l.size > 0 {
		_ = l.file.Close()
		_ = os.Rename(l.path, l.path+".old")
		if err := l.open(); err != nil {
			return 0, err
		}
	}
	n, err := l.file.Write(p)
	l.size += int64(n)
	return n, err
}

// readFrom copies until the reader ends and drains it even when writing fails,
// so that a full disk does not block the daemon.
func (l *rotatingLog) readFrom(r io.Reader) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := r.Read(buffer)
		if n > 0 {
			_, _ = l.Write(buffer[:n])
		}
		if err != nil {
			return
		}
	}
}

func (l *rotatingLog) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.file.Close()
}
