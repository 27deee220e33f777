package apply

// ForceClassic makes an executor attach by clsact, as on a kernel without TCX.
func (e *Executor) ForceClassic() { e.forceClassic = true }
