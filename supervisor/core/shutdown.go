package core

// Shutdown is the end of healthd itself.
type Shutdown struct {
	Begun    bool
	RunBegan bool // the run began during it: if it crashes, that is how healthd leaves it
	LeftOver bool // a start is due, and is left to the next daemon
}
