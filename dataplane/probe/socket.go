package probe

import (
	"errors"
	"fmt"
	"net"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Bounds of the wait before a socket is opened again: the device may be gone,
// down, or about to be made.
const (
	minReopen = 50 * time.Millisecond
	maxReopen = 2 * time.Second
)

// socket sends and receives probes on one device. The device may vanish and
// return under another index: an error closes the socket, and it is opened
// again after a while.
type socket struct {
	device string
	// bypass the queueing discipline and with it the egress program: path
	// probes are in wire form already.
	bypass bool
	port   uint16
	sender uint32

	fd      int // -1 while closed
	ifindex int
	reopen  time.Time
	backoff time.Duration
}

func newSocket(device string, bypass bool, port uint16, sender uint32) *socket {
	return &socket{device: device, bypass: bypass, port: port, sender: sender, fd: -1}
}

// ready opens the socket if it is closed and its time has come.
func (s *socket) ready(now time.Time) error {
	if s.fd >= 0 || now.Before(s.reopen) {
		return nil
	}
	if err := s.open(); err != nil {
		s.fail(now)
		return fmt.Errorf("open probe socket on %s: %w", s.device, err)
	}
	return nil
}

func (s *socket) open() error {
	device, err := net.InterfaceByName(s.device)
	if err != nil {
		return err
	}
	// Protocol 0: nothing is received before the filter is in place.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("make packet socket: %w", err)
	}
	if err := s.configure(fd, device.Index); err != nil {
		unix.Close(fd)
		return err
	}
	s.fd, s.ifindex = fd, device.Index
	return nil
}

func (s *socket) configure(fd, ifindex int) error {
	filter, err := answerFilter(s.port, s.sender)
	if err != nil {
		return fmt.Errorf("assemble socket filter: %w", err)
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: (*unix.SockFilter)(unsafe.Pointer(&filter[0]))}
	if err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &program); err != nil {
		return fmt.Errorf("attach socket filter: %w", err)
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1); err != nil {
		return fmt.Errorf("set PACKET_IGNORE_OUTGOING: %w", err)
	}
	if s.bypass {
		if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1); err != nil {
			return fmt.Errorf("set PACKET_QDISC_BYPASS: %w", err)
		}
	}
	// ETH_P_ALL, because taps for one protocol come after the ingress program,
	// which ends answers.
	address := &unix.SockaddrLinklayer{Protocol: bigEndian(unix.ETH_P_ALL), Ifindex: ifindex}
	if err := unix.Bind(fd, address); err != nil {
		return fmt.Errorf("bind: %w", err)
	}
	return nil
}

// send one IPv4 packet. An error closes the socket, other than a full queue or a
// probe too large for the device.
func (s *socket) send(packet []byte, now time.Time) error {
	if s.fd < 0 {
		return nil
	}
	address := &unix.SockaddrLinklayer{Protocol: bigEndian(unix.ETH_P_IP), Ifindex: s.ifindex}
	if !s.bypass {
		// Any address does: the overlay program picks the destination by IP.
		address.Halen = 6
		address.Addr[0] = 0x02
	}
	err := unix.Sendto(s.fd, packet, 0, address)
	switch {
	case err == nil:
		s.backoff = 0
		return nil
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.ENOBUFS), errors.Is(err, unix.EINTR),
		errors.Is(err, unix.EMSGSIZE): // the device's MTU is less than the plan says
		return nil // this probe will be missed
	}
	s.fail(now)
	return fmt.Errorf("send probe on %s: %w", s.device, err)
}

// receive calls take with each packet that has arrived. It is bounded, so that
// a flood cannot hold up sending.
func (s *socket) receive(now time.Time, take func([]byte)) error {
	var buffer [maxAnswer]byte
	for range 256 {
		if s.fd < 0 {
			return nil
		}
		n, _, err := unix.Recvfrom(s.fd, buffer[:], 0)
		switch {
		case err == nil:
			take(buffer[:n])
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			return nil
		default:
			s.fail(now)
			return fmt.Errorf("receive probes on %s: %w", s.device, err)
		}
	}
	return nil
}

// fail closes the socket and sets the time of the next attempt.
func (s *socket) fail(now time.Time) {
	s.close()
	s.backoff = min(max(2*s.backoff, minReopen), maxReopen)
	s.reopen = now.Add(s.backoff)
}

func (s *socket) close() {
	if s.fd >= 0 {
		unix.Close(s.fd)
		s.fd = -1
	}
}

func bigEndian(v uint16) uint16 { return v<<8 | v>>8 }
