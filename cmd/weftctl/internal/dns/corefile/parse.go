package corefile

import (
	"net"
	"strings"
)

// block is a server block or a snippet.
type block struct {
	keys       []string
	line       int
	directives []directive
}

// directive is the first line of a plugin's configuration.
type directive struct {
	words []string
	line  int
	// nested: it goes on in braces.
	nested bool
}

// word of a Corefile: CoreDNS's own rules are those of the Caddyfile, version 1.
type word struct {
	text string
	// line where it begins, and where it ends.
	line, lastLine int
}

// words splits the text. Comments begin at the start of a word; a quoted word may
// have spaces and line ends in it.
func words(text string) ([]word, error) {
	var all []word
	line := 1
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case c == '\n':
			line++
			i++
		case c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f':
			i++
		case c == '#':
			i += lengthUntil(text[i:], "\n")
		case c == '"':
			length, closed := quoted(text[i:])
			if !closed {
				return nil, &SyntaxError{line, "a quotation mark is not closed"}
			}
			breaks := strings.Count(text[i:i+length], "\n")
			all = append(all, word{text[i : i+length], line, line + breaks})
			line += breaks
			i += length
		default:
			length := lengthUntil(text[i:], " \t\r\n\v\f")
			all = append(all, word{text[i : i+length], line, line})
			i += length
		}
	}
	return all, nil
}

func lengthUntil(text, any string) int {
	if end := strings.IndexAny(text, any); end >= 0 {
		return end
	}
	return len(text)
}

// quoted returns the length of the quoted word that text begins with.
func quoted(text string) (length int, closed bool) {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1, true
		}
	}
	return len(text), false
}

// parse returns the blocks of a Corefile. Imports of whole files are passed over.
func parse(text string) ([]block, error) {
	rest, err := words(text)
	if err != nil {
		return nil, err
	}
	var blocks []block
	for len(rest) > 0 {
		if rest[0].text == "import" {
			rest = rest[sameLine(rest):]
			continue
		}
		var next block
		next, rest, err = parseBlock(rest)
		if err != nil {
			return nil, err
		}
		blocks = append(blocks, next)
	}
	return blocks, nil
}

// sameLine returns how many words stand on the line of the first.
func sameLine(all []word) int {
	for n := 1; n < len(all); n++ {
		if all[n].line != all[n-1].lastLine {
			return n
		}
	}
	return len(all)
}

func parseBlock(all []word) (block, []word, error) {
	b := block{line: all[0].line}
	keys := sameLine(all)
	for keys < len(all) && strings.HasSuffix(all[keys-1].text, ",") {
		keys += sameLine(all[keys:])
	}
	if all[keys-1].text != "{" {
		return b, nil, &SyntaxError{b.line, "a server block without braces; put braces around what follows, since other blocks can only be added then"}
	}
	for _, key := range all[:keys-1] {
		for part := range strings.SplitSeq(key.text, ",") {
			if part != "" {
				b.keys = append(b.keys, part)
			}
		}
	}
	return parseBody(b, all[keys:])
}

// parseBody reads directives up to the brace that closes the block.
func parseBody(b block, rest []word) (block, []word, error) {
	for len(rest) > 0 {
		switch rest[0].text {
		case "}":
			return b, rest[1:], nil
		case "{":
			return b, nil, &SyntaxError{rest[0].line, "a brace where a plugin's name should be"}
		}
		var d directive
		d, rest = parseDirective(rest)
		b.directives = append(b.directives, d)
	}
	return b, nil, &SyntaxError{b.line, "the block that begins here is not closed"}
}

// parseDirective reads a plugin's configuration: one line, and what that opens
// braces for.
func parseDirective(all []word) (directive, []word) {
	d := directive{line: all[0].line}
	depth := 0
	for i, w := range all {
		closes := w.text == "}" && depth == 0
		if closes || i > 0 && depth == 0 && w.line != all[i-1].lastLine {
			return d, all[i:]
		}
		switch {
		case w.text == "{":
			depth++
			d.nested = true
		case w.text == "}":
			depth--
		case depth == 0:
			d.words = append(d.words, w.text)
		}
	}
	return d, nil
}

// address of a server block's key.
type address struct {
	zone string
	// port is empty for CoreDNS's default.
	port string
	// plain: DNS over UDP and TCP, not over TLS or HTTPS.
	plain bool
}

func parseKey(key string) address {
	scheme, rest, found := strings.Cut(key, "://")
	if !found {
		scheme, rest = "dns", key
	}
	a := address{zone: rest, plain: scheme == "dns"}
	if host, port, err := net.SplitHostPort(rest); err == nil {
		a.zone, a.port = host, port
	}
	if a.zone != "." {
		a.zone = strings.TrimSuffix(a.zone, ".")
	}
	a.zone = strings.ToLower(a.zone)
	return a
}
