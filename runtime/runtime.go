// Package runtime says what runs on a host: containers, the events that change
// them, and Watch, which turns an engine's event stream, lists and inspections
// into one ordered stream of facts. Talking to a particular engine is left to
// the packages below it; deciding what follows from a fact, to the supervisor.
package runtime

import (
	"errors"
	"time"
)

// ErrNotFound is returned, wrapped, when the engine does not know the container.
var ErrNotFound = errors.New("no such container")

// State is what the engine says a container is doing, in the words of the
// Docker API.
type State string

// The states of a container.
const (
	Created    State = "created"
	Running    State = "running"
	Paused     State = "paused"
	Restarting State = "restarting"
	Exited     State = "exited"
	Removing   State = "removing"
	Dead       State = "dead"
)

// Alive says whether the container has a main process.
func (s State) Alive() bool { return s == Running || s == Paused }

// Run identifies one run of a container. Docker keeps the ID over a restart, so
// only the ID and the start together tell one run from the next. It is zero for
// a container that never ran.
type Run struct {
	ID      string
	Started int64 // nanoseconds since the Unix epoch
}

// Container is one container as the engine described it at one moment. It is
// never changed after it was made, so it may be shared.
type Container struct {
	Runtime string // name of the runtime it belongs to: "docker"
	ID      string // full ID
	Name    string // without the slash
	Image   string
	ImageID string // changes when the same name is another image; empty when not told
	Labels  map[string]string
	Env     []string // "NAME=value" each; may hold secrets

	State      State
	StartedAt  time.Time // zero when it never ran
	FinishedAt time.Time // end of the newest run that ended; zero when none did
	ExitCode   int       // of the run that ended at FinishedAt; meaningless while it is alive
	OOMKilled  bool
	Error      string // why the engine could not start it, if so

	Address string // where probes go: an IP address; empty when there is none
	Network string // name of the network that Address belongs to
	// NetworkOf is the ID of the container whose network this one shares
	// (network mode "container:ID"); Address is then that container's.
	NetworkOf string
	// NetworkSince is when the present run of that container began; zero while it does
	// not run. NetworkGone says that the engine does not know it any more.
	NetworkSince time.Time
	NetworkGone  bool
	// Hint is what Summary.Hint of the container is as of this inspection.
	Hint string

	RestartPolicy string        // the engine's own: "no", "always", "unless-stopped", "on-failure"
	AutoRemove    bool          // --rm: the engine removes it when it ends
	StopSignal    string        // as configured, e.g. "SIGQUIT" or "3"; empty for SIGTERM
	StopTimeout   time.Duration // negative when none is configured
	// Resources is what the engine limits the container to, only to be compared.
	Resources string
	// HasHealthcheck says that the engine runs a HEALTHCHECK of its own for it.
	HasHealthcheck bool
}

// Run returns the identity of the container's present or last run.
func (c *Container) Run() Run {
	if c.StartedAt.IsZero() {
		return Run{}
	}
	return Run{ID: c.ID, Started: c.StartedAt.UnixNano()}
}

// Action names what an engine's event reports, in the words of the Docker API.
type Action string

// The actions that Watch asks engines for. Every one of them but exec makes it
// inspect the container; kill, die and stop carry a cause that no inspection tells.
const (
	ActionCreate  Action = "create"
	ActionStart   Action = "start"
	ActionKill    Action = "kill"
	ActionDie     Action = "die"
	ActionStop    Action = "stop"
	ActionOOM     Action = "oom"
	ActionPause   Action = "pause"
	ActionUnpause Action = "unpause"
	ActionRename  Action = "rename"
	ActionUpdate  Action = "update"
	ActionDestroy Action = "destroy"
	ActionNetwork Action = "network" // connected to or disconnected from a network
	// ActionExec tells nothing of the container. On a host with exec probes these are
	// what fills the engine's memory, so having heard one keeps the newest event heard
	// from being one that the engine has forgotten.
	ActionExec Action = "exec_die"
)

// Event is one entry of an engine's event stream.
type Event struct {
	ID       string // container
	Action   Action
	Signal   int // of a kill; 0 when the engine named none
	ExitCode int // of a die
	Time     time.Time
	Name     string            // of the container; empty when the event does not tell
	Labels   map[string]string // of the container; nil when the event does not tell
}

// Summary is what a list of all containers tells of one of them: enough to see
// whether it must be inspected.
type Summary struct {
	ID     string
	Name   string
	Labels map[string]string
	State  State
	// Hint changes when the container's address or run may have changed. It is
	// compared with that of the newest inspection, never read.
	Hint string
	// Since and Until bound the moment of the newest start of a container that is
	// alive, or of the newest end of one that is not. They are zero when the list
	// tells nothing of it.
	Since, Until time.Time
}

// Fits says whether the list gives no reason to doubt that the container still is
// as c says.
func (s Summary) Fits(c *Container) bool {
	if s.Name != c.Name || s.State != c.State || s.Hint != c.Hint {
		return false
	}
	if s.Until.IsZero() {
		return true
	}
	at := c.FinishedAt
	if s.State.Alive() {
		at = c.StartedAt
	}
	return !at.Before(s.Since) && !at.After(s.Until)
}

// UpdateKind says what an Update reports.
type UpdateKind int

// The kinds of updates.
const (
	// Observed: an inspection just showed the container as Container.
	Observed UpdateKind = iota + 1
	// Removed: container ID no longer exists, or is Unwanted.
	Removed
	// Killed: somebody, perhaps healthd, sent Signal to container ID. It always
	// comes before the Observed of an end that the signal caused.
	Killed
	// Died: the main process of container ID ended with ExitCode. It is a hint: an
	// Observed follows.
	Died
	// Stopped: the engine finished a request to stop or restart container ID.
	Stopped
	// Lost: the engine cannot be reached any more; Err says why. It is sent once per loss.
	Lost
	// Synced: every container of a full list has been delivered. The first Synced
	// after the start or after a Lost means that the engine is reachable (again).
	// Reason says why the list was made.
	Synced
	// Connected: a new connection to the engine. It comes before all other updates
	// of that connection. Replay says which of the events since the last connection
	// follow. A connection that breaks before its Synced is followed by another
	// Connected, not always by a Lost.
	Connected
	// Bookmark: only SeenUntil is new. It is sent when many events came that make no
	// other update.
	Bookmark
)

// Reasons for making a full list, the values of Update.Reason.
const (
	RelistStart     = "start"
	RelistReconnect = "reconnect"
	RelistInterval  = "interval"
	RelistLossy     = "lossy"   // events were lost, or seem to be
	RelistRefresh   = "refresh" // Watcher.Refresh asked for it
)

// Update is one fact for the supervisor. Which fields are set follows from Kind.
type Update struct {
	Kind    UpdateKind
	Runtime string // Watcher.Name
	ID      string // of the container
	// Time is when the engine says that it happened; zero when it does not say.
	Time time.Time

	// Container is set for Observed.
	Container *Container
	// Causes are the Killed, Died and Stopped updates that came before the first
	// Observed of a container, oldest first. Later ones are sent on their own.
	Causes []Update
	// StateFromEvent says, of the first Observed, that a create, start or die event
	// of the container was received. Without one, only a list or an inspection
	// showed its state, and the change may be old.
	StateFromEvent bool

	Signal   int // of a Killed; 0 when the engine named none
	ExitCode int // of a Died
	// Started is, for Killed, Died and Stopped, the time of the newest start event
	// received before; zero when there was none.
	Started time.Time

	Unwanted bool // of a Removed: it still exists, but Watcher.Wanted refuses it

	Reason       string   // of a Synced: one of the Relist constants
	NotInspected []string // of a Synced: IDs that were listed but could not be inspected

	Err error // of a Lost

	Replay Replay // of a Connected
	// KilledByEngineBefore is set for Connected with ReplayRestart when the engine
	// runs without live-restore. Such an engine kills, when it starts, all containers
	// that are still running. A signal to a run that began before this moment came
	// from the engine, not from an operator. Zero: the engine killed nothing.
	KilledByEngineBefore time.Time

	// Lag is how long after the newest event healthd read it. It is zero when no new
	// lag was measured since the update before.
	Lag time.Duration
	// SeenUntil is the time of an event. Whoever has processed this update and all
	// before it has processed all events up to that time, and a later Watcher may
	// start with it as Since. Zero: no event was received yet.
	SeenUntil time.Time
}
