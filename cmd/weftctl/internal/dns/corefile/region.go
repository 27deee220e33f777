package corefile

import (
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"strings"
)

// Lines around Weft's block. After the first follows a checksum of what is in
// between, by which a change by hand is seen.
const (
	beginMark = "# BEGIN weft"
	endMark   = "# END weft"
)

// region is Weft's block in a text: from start to end in bytes, marks included,
// with the number of its first line.
type region struct {
	start, end   int
	line         int
	sum, content string
}

func (r *region) edited() bool { return checksum(r.content) != r.sum }

// findRegion finds the block; nil if there is none.
func findRegion(text string) (*region, error) {
	var found *region
	open := false
	offset, number := 0, 0
	for line := range strings.SplitAfterSeq(text, "\n") {
		number++
		trimmed := strings.TrimSpace(line)
		switch begins, ends := strings.HasPrefix(trimmed, beginMark), trimmed == endMark; {
		case begins && found != nil:
			return nil, &SyntaxError{number, "another beginning of Weft's block; remove one of the two by hand"}
		case ends && !open:
			return nil, &SyntaxError{number, "an end of Weft's block without a beginning; remove the line by hand"}
		case begins:
			sum := strings.TrimSpace(strings.TrimPrefix(trimmed, beginMark))
			found, open = &region{start: offset, line: number, sum: sum}, true
		case ends:
			found.end, open = offset+len(line), false
		case open:
			found.content += line
		}
		offset += len(line)
	}
	if open {
		return nil, &SyntaxError{found.line, "the beginning of Weft's block without an end; remove the block by hand"}
	}
	return found, nil
}

// checksum of a block's content, whatever its line ends.
func checksum(content string) string {
	sum := sha256.Sum256([]byte(strings.ReplaceAll(content, "\r\n", "\n")))
	return hex.EncodeToString(sum[:6])
}

// plugins of the block, before the one that forwards. Answers live 5 seconds, the
// zone's own time to live. CoreDNS gives one that has expired only where it asked
// again and got none, as when weft-dns hangs; that it got none, it forgets after a
// second, or one lost question would be everybody's for five. Expired answers are
// kept for as long as the kubelet may need to start weft-dns again, and not longer:
// CoreDNS prefers an old NXDOMAIN among them to a later answer.
const plugins = `    errors
    cache 5 {
        servfail 1s
        serve_stale 5m verify
    }
`

// render returns the block.
func render(listeners []listener, server netip.Addr, newline string) string {
	var content strings.Builder
	content.WriteString("# Written by `weftctl dns enable`, removed by `weftctl dns disable`.\n")
	for _, l := range listeners {
		key := Zone
		if l.port != "" {
			key += ":" + l.port
		}
		content.WriteString(key + " {\n")
		if len(l.bind) > 0 {
			content.WriteString("    bind " + strings.Join(l.bind, " ") + "\n")
		}
		content.WriteString(plugins + "    forward . " + server.String() + "\n}\n")
	}
	text := beginMark + " " + checksum(content.String()) + "\n" + content.String() + endMark + "\n"
	return strings.ReplaceAll(text, "\n", newline)
}

// newline returns the line end that most lines of the text have.
func newline(text string) string {
	if windows := strings.Count(text, "\r\n"); 2*windows > strings.Count(text, "\n") {
		return "\r\n"
	}
	return "\n"
}
