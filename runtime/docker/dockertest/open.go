package dockertest

// Open starts an engine outside of tests, for the demo. The caller must call Close.
func Open() (*Engine, error) { return start() }

// Close removes the engine's containers, ends it and cleans up.
func (e *Engine) Close() error { return e.close() }
