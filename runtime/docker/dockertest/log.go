package dockertest

// Log returns the end of what the engine has logged.
func (e *Engine) Log() string { return e.daemon.LogTail() }
