package barewireguard

import (
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/device"
	"golang.zx2c4.com/wireguard/tun"
)

// Start makes the device in the current network namespace, with its address,
// up. The TUN goes away with close, or with the process.
func Start(c Config) (closeDevice func(), err error) {
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("configure %s: %w", c, err)
	}
	settings, err := c.protocol()
	if err != nil {
		return nil, err
	}
	interfaceTUN, err := tun.CreateTUN(c.Device, c.MTU)
	if err != nil {
		return nil, fmt.Errorf("create TUN %s: %w", c.Device, err)
	}
	dev := device.NewDevice(interfaceTUN, conn.NewDefaultBind(), device.NewLogger(device.LogLevelError, c.Device+": "))
	if err := dev.IpcSet(settings); err != nil {
		dev.Close()
		return nil, fmt.Errorf("configure %s: %w", c, err)
	}
	if err := configureLink(c); err != nil {
		dev.Close()
		return nil, err
	}
	if err := dev.Up(); err != nil {
		dev.Close()
		return nil, fmt.Errorf("start %s: %w", c, err)
	}
	return dev.Close, nil
}

func configureLink(c Config) error {
	link, err := netlink.LinkByName(c.Device)
	if err != nil {
		return fmt.Errorf("find device %s: %w", c.Device, err)
	}
	address, err := netlink.ParseAddr(c.Address.String())
	if err != nil {
		return fmt.Errorf("read the address of %s: %w", c.Device, err)
	}
	if err := netlink.AddrAdd(link, address); err != nil {
		return fmt.Errorf("add address %s to %s: %w", c.Address, c.Device, err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("set %s up: %w", c.Device, err)
	}
	return nil
}
