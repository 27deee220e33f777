package cluster

import (
	"errors"
	"fmt"
	"os"

	"github.com/weft-fabric/weft/tools/lab/layout"
	"github.com/weft-fabric/weft/tools/lab/machine"
)

// Down removes the lab and whatever an interrupted start or an earlier crash
// left of it. It needs no state: processes are found by their mark,
// namespaces and cgroups by their name. Nothing to remove is no error.
func (l *Lab) Down() error {
	unlock, err := l.lock()
	if err != nil {
		return err
	}
	defer unlock()
	other := l.otherLab()
	err = machine.KillAll(func() ([]int, error) {
		pids, err := machine.MarkedProcesses(l.Folders.Root)
		if other == "" {
			pids = append(pids, machine.CgroupProcesses()...)
		}
		return pids, err
	})
	if err != nil {
		return err
	}
	errs := []error{l.restoreLimits()}
	if other == "" {
		errs = append(errs, machine.DeleteNamespaces(layout.NamespacePrefix), machine.RemoveCgroups())
	}
	if err := os.RemoveAll(l.Folders.Root); err != nil {
		errs = append(errs, fmt.Errorf("remove the state folder: %w", err))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	l.say("the lab is gone")
	return nil
}
