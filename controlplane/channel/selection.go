package channel

import (
	"errors"
	"fmt"
	"strings"
	"sync"
)

// selection takes the good items of a list, so that a bad one takes none of the
// others away. Items are told apart by their keys.
type selection[T any] struct {
	// last is the list before, by key: where it has a good item, that one stands
	// in for a bad one. It is not looked at while all are good.
	last    func() map[string]T
	taken   []T
	keys    map[string]bool
	leftOut []string
}

func newSelection[T any](last []T, key func(T) string) *selection[T] {
	return &selection[T]{taken: []T{}, keys: map[string]bool{}, last: sync.OnceValue(func() map[string]T {
		out := map[string]T{}
		for _, item := range last {
			out[key(item)] = item
		}
		return out
	})}
}

// add takes an item, or says why it is bad. An empty key is an item that nobody
// can tell from others. The name is what sentences call the item.
func (s *selection[T]) add(name, key string, item T, err error) {
	if err == nil && s.keys[key] {
		err = errors.New("it is listed twice")
	}
	if err != nil {
		s.leftOut = append(s.leftOut, clip(fmt.Sprintf("%s: %v", name, err)))
		if key == "" || s.keys[key] {
			return
		}
		var ok bool
		if item, ok = s.last()[key]; !ok {
			return
		}
	}
	s.keys[key] = true
	s.taken = append(s.taken, item)
}

// maxNamed is how many items that were left out a sentence names.
const maxNamed = 4

// summary of what was left out, empty if nothing was.
func summary(leftOut []string) string {
	if more := len(leftOut) - maxNamed; more > 0 {
		return fmt.Sprintf("%s; and %d more", strings.Join(leftOut[:maxNamed], "; "), more)
	}
	return strings.Join(leftOut, "; ")
}
