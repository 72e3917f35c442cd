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

// Kind says what an Update reports.
type Kind int

// The kinds of updates.
const (
	// Observed: Container is the truth as of an inspection just made.
	Observed Kind = iota + 1
	// Removed: the container ID is gone, or Unwanted.
	Removed
	// Killed: somebody, perhaps we, sent Signal to container ID. Always comes
	// before the observation of a death that it caused.
	Killed
	// Died: the main process of container ID ended with ExitCode. A hint: the
	// observation follows.
	Died
	// Stopped: a request to stop or restart container ID was carried out.
	Stopped
	// Lost: the engine cannot be heard since; Err says why. Sent once per loss.
	Lost
	// Synced: everything that a full list told has been delivered. The first one
	// after the start or after a Lost means that the engine is there (again).
	// Reason says why the list was made.
	Synced
	// Began: a connection to the engine has begun; Replay says what it can still tell
	// of the time before, back to the newest event that was heard. It comes before
	// everything else of that connection. A connection that is lost before its Synced
	// is followed by another Began, not always by a Lost.
	Began
	// Heard: events came that make no other update; only Seen is new.
	Heard
)

// Reasons for making a full list, the values of Update.Reason.
const (
	RelistStart     = "start"
	RelistReconnect = "reconnect"
	RelistInterval  = "interval"
	RelistLossy     = "lossy"
	RelistRefresh   = "refresh"
)

// Update is one fact for the supervisor. Which fields are set follows from Kind.
type Update struct {
	Kind      Kind
	Runtime   string
	ID        string
	Container *Container
	Signal    int
	ExitCode  int
	Time      time.Time     // when the engine says it happened; zero when it did not say
	Causes    []Update      // of the first Observed: what events told of it before, oldest first
	Witnessed bool          // of the first Observed: an event told of how it came to be as it is
	Lag       time.Duration // from the newest event, if no update before told it, to our reading it; zero: none was measured
	Started   time.Time     // for Killed, Died and Stopped: the newest start that events told of before; zero: none
	Reason    string
	Unseen    []string // of a Synced: IDs that were listed, but could not be inspected since
	Unwanted  bool     // of a Removed: it is still there, but nobody wants it any more
	Err       error
	Replay    Replay // of a Began
	// Swept, of a Began with ReplayRestart, is when the engine had ended all runs that
	// it found at its start, or had begun to: what it answers came later. Signals to
	// runs from before that moment were its own. Zero: it has ended none.
	Swept time.Time
	// Seen is the time of an event: all events up to it are taken in when this update
	// and all before it are. It is what a later Watcher wants as Since. Zero: no event
	// was heard yet.
	Seen time.Time
}
