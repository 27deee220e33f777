package testbed

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

// claimName is an abstract Unix socket: the kernel lets one process have it, and
// takes it back when that ends, however it ends. No file is left.
const claimName = "@weft-lab-run"

// errClaimed says that the machine's one lab is in use.
var errClaimed = errors.New("another run of the demo or of the end-to-end tests uses the lab of this machine: wait until it has ended, or stop it, then run this again")

// Claim keeps other runs off the lab until release, or the end of the process.
// What starts, changes or removes a lab takes it first, since there is one lab on
// a machine. The programs that it runs inherit nothing and need no claim.
func Claim() (release func(), err error) { return claim(claimName) }

func claim(name string) (func(), error) {
	socket, err := net.Listen("unix", name)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, errClaimed
	}
	if err != nil {
		return nil, fmt.Errorf("claim the lab: %w", err)
	}
	return func() { _ = socket.Close() }, nil
}
