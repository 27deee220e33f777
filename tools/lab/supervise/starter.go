package supervise

import "runtime"

// startLoop runs functions on one thread that never ends.
func (s *Supervisor) startLoop() {
	runtime.LockOSThread()
	for f := range s.starter {
		f()
	}
}
