package wan

// ring is a growing FIFO of packets without allocation in its steady state.
type ring struct {
	slots       []packet
	first, used int
}

func (r *ring) len() int { return r.used }

func (r *ring) front() packet { return r.slots[r.first] }

func (r *ring) push(p packet) {
	if r.used == len(r.slots) {
		r.grow()
	}
	r.slots[(r.first+r.used)%len(r.slots)] = p
	r.used++
}

func (r *ring) pop() {
	r.slots[r.first] = packet{}
	r.first = (r.first + 1) % len(r.slots)
	r.used--
}

func (r *ring) grow() {
	bigger := make([]packet, max(64, 2*len(r.slots)))
	for i := range r.used {
		bigger[i] = r.slots[(r.first+i)%len(r.slots)]
	}
	r.slots, r.first = bigger, 0
}
