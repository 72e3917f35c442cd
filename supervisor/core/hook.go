package core

import "time"

// HookType is one of the two lifecycle hooks. It indexes arrays.
type HookType uint8

// The lifecycle hooks.
const (
	PostStart HookType = iota
	PreStop
	numHooks
)

// Title returns the name used in events, as the kubelet writes it.
func (h HookType) Title() string { return [...]string{"PostStart", "PreStop"}[h] }

// HookState is how far a hook of the present run is.
type HookState uint8

// The states of a hook.
const (
	HookIdle HookState = iota // the spec has no such hook, or its time has not come
	HookDue                   // post_start only: the hook has not begun, or could not run
	HookRunning
	HookDone
	HookFailed // post_start only: healthd stops the run
)

// PostStartTimeout is the most that a post_start hook may take; a sleep of exactly this
// long succeeds. The kubelet waits for ever, and probes nothing meanwhile.
const PostStartTimeout = 5 * time.Minute

// HookRetry is the time before healthd tries a post_start hook again that could not run.
const HookRetry = 10 * time.Second
