package bulk

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"time"
)

const frameHeaderBytes = 4

// send writes the frames that h asks for and says what it sent.
func send(w io.Writer, h header) (summary, error) {
	frame := make([]byte, frameHeaderBytes+chunkBytes)
	source := newContent(h)
	start := time.Now()
	limit := time.Duration(h.DurationMilliseconds) * time.Millisecond
	var sent int64
	for sent < h.Bytes && (limit == 0 || time.Since(start) < limit) {
		n := int(min(h.Bytes-sent, chunkBytes))
		body := frame[frameHeaderBytes : frameHeaderBytes+n]
		source.fill(body)
		binary.BigEndian.PutUint32(frame, uint32(n))
		if _, err := w.Write(frame[:frameHeaderBytes+n]); err != nil {
			return summary{}, fmt.Errorf("send after %d bytes: %w", sent, err)
		}
		sent += int64(n)
	}
	if _, err := w.Write(make([]byte, frameHeaderBytes)); err != nil {
		return summary{}, fmt.Errorf("send the end after %d bytes: %w", sent, err)
	}
	return summary{Bytes: sent, Seconds: time.Since(start).Seconds(), SHA256: source.sum()}, nil
}

// receive reads frames to their end and says what it received. It takes no
// more than h allows.
func receive(r *bufio.Reader, h header) (summary, error) {
	var sum hash.Hash
	if h.Verify {
		sum = sha256.New()
	}
	buffer := make([]byte, chunkBytes)
	var start time.Time
	var received int64
	for {
		var length [frameHeaderBytes]byte
		if _, err := io.ReadFull(r, length[:]); err != nil {
			return summary{}, fmt.Errorf("receive after %d bytes: %w", received, err)
		}
		if start.IsZero() {
			start = time.Now()
		}
		n := int64(binary.BigEndian.Uint32(length[:]))
		if n == 0 {
			break
		}
		if n > chunkBytes || received+n > h.Bytes {
			return summary{}, fmt.Errorf("a frame of %d bytes after %d exceeds what was asked for", n, received)
		}
		if _, err := io.ReadFull(r, buffer[:n]); err != nil {
			return summary{}, fmt.Errorf("receive after %d bytes: %w", received, err)
		}
		if sum != nil {
			sum.Write(buffer[:n])
		}
		received += n
	}
	out := summary{Bytes: received, Seconds: time.Since(start).Seconds()}
	if sum != nil {
		out.SHA256 = hex.EncodeToString(sum.Sum(nil))
	}
	return out, nil
}

// generator makes content and, where it is verified, its hash.
type generator struct {
	random *rand.ChaCha8
	hash   hash.Hash
}

func newContent(h header) *generator {
	if !h.Verify {
		return &generator{}
	}
	var seed [32]byte
	binary.BigEndian.PutUint64(seed[:], h.Seed)
	return &generator{random: rand.NewChaCha8(seed), hash: sha256.New()}
}

func (g *generator) fill(b []byte) {
	if g.random == nil {
		return
	}
	_, _ = g.random.Read(b) // never fails
	g.hash.Write(b)
}

func (g *generator) sum() string {
	if g.hash == nil {
		return ""
	}
	return hex.EncodeToString(g.hash.Sum(nil))
}
