package leftover

import (
	"errors"
	"fmt"
	"os"

	"github.com/cilium/ebpf"
)

// programNames lists the BPF programs that the kernel holds. They are
// machine-wide, whatever namespace they serve.
func programNames() ([]string, error) {
	var names []string
	var id ebpf.ProgramID
	for {
		next, err := ebpf.ProgramGetNextID(id)
		if errors.Is(err, os.ErrNotExist) {
			return names, nil
		}
		if err != nil {
			return nil, fmt.Errorf("list BPF programs: %w", err)
		}
		id = next
		if name := programName(id); name != "" {
			names = append(names, name)
		}
	}
}

// programName is empty for a program that went away or has no name.
func programName(id ebpf.ProgramID) string {
	program, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return ""
	}
	defer program.Close()
	info, err := program.Info()
	if err != nil {
		return ""
	}
	return info.Name
}
