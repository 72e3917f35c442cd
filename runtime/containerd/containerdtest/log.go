package containerdtest

// Log returns the end of what containerd has logged.
func (e *Engine) Log() string { return e.daemon.LogTail() }
