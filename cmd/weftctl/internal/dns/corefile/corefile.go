package corefile

import (
	"net/netip"
	"slices"
	"strings"
)

// File is a Corefile that was read.
type File struct {
	text string
	// blocks are all but Weft's.
	blocks []block
	// own is Weft's block; nil if there is none.
	own *region
}

// Parse reads a Corefile.
func Parse(text string) (*File, error) {
	own, err := findRegion(text)
	if err != nil {
		return nil, err
	}
	f := &File{text: text, own: own}
	f.blocks, err = parse(f.blanked())
	if err != nil {
		return nil, err
	}
	return f, nil
}

// State says how Weft's block is.
func (f *File) State() State {
	switch {
	case f.own == nil:
		return Absent
	case f.own.edited():
		return Edited
	default:
		return Present
	}
}

// Forwards says whether Weft's block is there and forwards to server, on all the
// ports where it should.
func (f *File) Forwards(server netip.Addr) bool {
	want, err := f.Enable(server, false)
	return err == nil && want == f.text
}

// Reloads says whether CoreDNS reads the file again when it changes.
func (f *File) Reloads() bool {
	return slices.ContainsFunc(f.blocks, func(b block) bool {
		return slices.ContainsFunc(b.directives, func(d directive) bool { return d.words[0] == "reload" })
	})
}

// Enable returns the text with a block that forwards the zone to server: where
// ours is, or in front of all others. What somebody changed in ours is given up
// only by force.
func (f *File) Enable(server netip.Addr, force bool) (string, error) {
	if err := f.conflict(); err != nil {
		return "", err
	}
	listeners, err := f.listeners()
	if err != nil {
		return "", err
	}
	fresh := render(listeners, server, newline(f.text))
	if f.own == nil {
		return fresh + f.text, nil
	}
	if f.own.edited() && !force {
		return "", &EditedError{f.own.line}
	}
	text := f.text[:f.own.start] + fresh + f.text[f.own.end:]
	if blocks, err := parse(text); err != nil || len(blocks) != len(f.blocks)+len(listeners) {
		return "", &SyntaxError{f.own.line, "Weft's block stands inside another one; remove it by hand, from its first line to its last"}
	}
	return text, nil
}

// Block returns what Enable writes, without anything around it.
func (f *File) Block(server netip.Addr) (string, error) {
	listeners, err := f.listeners()
	if err != nil {
		return "", err
	}
	return render(listeners, server, newline(f.text)), nil
}

// Disable returns the text without Weft's block.
func (f *File) Disable(force bool) (string, error) {
	if f.own == nil {
		return f.text, nil
	}
	if f.own.edited() && !force {
		return "", &EditedError{f.own.line}
	}
	return f.text[:f.own.start] + f.text[f.own.end:], nil
}

// blanked returns the text with empty lines in place of Weft's block, which
// somebody may have broken.
func (f *File) blanked() string {
	if f.own == nil {
		return f.text
	}
	own := f.text[f.own.start:f.own.end]
	return f.text[:f.own.start] + strings.Repeat("\n", strings.Count(own, "\n")) + f.text[f.own.end:]
}

// conflict finds who else serves the zone: a server block of it, or a plugin
// that is given it. Ours is more specific than those, so it would silence them.
func (f *File) conflict() error {
	for _, b := range f.blocks {
		for _, key := range b.keys {
			if parseKey(key).zone == Zone {
				return &ConflictError{b.line, strings.Join(b.keys, " ")}
			}
		}
		for _, d := range b.directives {
			if slices.ContainsFunc(d.words[1:], func(word string) bool { return parseKey(word).zone == Zone }) {
				return &ConflictError{d.line, strings.Join(d.words, " ")}
			}
		}
	}
	return nil
}

// listener is where the cluster's questions come in.
type listener struct {
	port string
	bind []string
}

// listeners returns the ports and addresses of the blocks of the root zone, or
// else of those that serve the cluster's own names.
func (f *File) listeners() ([]listener, error) {
	for _, serves := range []func(block, address) bool{
		func(_ block, a address) bool { return a.zone == "." },
		func(b block, _ address) bool { return b.has("kubernetes") },
	} {
		found, err := f.listenersOf(serves)
		if err != nil || len(found) > 0 {
			return found, err
		}
	}
	return nil, &SyntaxError{1, "no server block serves the root zone or has the plugin kubernetes, so where the cluster's questions come in is not known"}
}

func (f *File) listenersOf(serves func(block, address) bool) ([]listener, error) {
	var found []listener
	for _, b := range f.blocks {
		bind, err := b.bind()
		for _, key := range b.keys {
			a := parseKey(key)
			next := listener{a.port, bind}
			same := func(l listener) bool { return l.port == next.port && slices.Equal(l.bind, next.bind) }
			if !a.plain || !serves(b, a) || slices.ContainsFunc(found, same) {
				continue
			}
			if err != nil {
				return nil, err
			}
			found = append(found, next)
		}
	}
	return found, nil
}

func (b block) has(plugin string) bool {
	return slices.ContainsFunc(b.directives, func(d directive) bool { return d.words[0] == plugin })
}

// bind returns the arguments of the plugin that says on which addresses a block
// listens. Blocks of one port have to agree on them.
func (b block) bind() ([]string, error) {
	var all []string
	for _, d := range b.directives {
		if d.words[0] != "bind" {
			continue
		}
		if d.nested {
			return nil, &SyntaxError{d.line, "bind with a block in braces; write the addresses on one line"}
		}
		all = append(all, d.words[1:]...)
	}
	return all, nil
}
