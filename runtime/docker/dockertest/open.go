package dockertest

// Open starts an engine outside of tests, for the demo. Close must be called.
func Open() (*Engine, error) { return start() }

// Close removes the engine's containers, ends it and leaves nothing behind.
func (e *Engine) Close() error { return e.close() }
