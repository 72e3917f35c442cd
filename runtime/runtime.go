// Package runtime watches container engines. It defines Container, Event and
// Source, which each engine implements, and Watcher, which turns an engine's
// events, lists and inspections into one ordered stream of Updates.
//
//	engine ◀── Source ──▶ Watcher.Run ── Update ──▶ supervisor
//
//	the Watcher's step                                   Updates
//	1. Subscribe to events, from the newest seen on      Connected
//	2. List all containers
//	3. Inspect those that are new or differ              Observed, Removed
//	   when all of the list are done                     Synced
//	4. for each event:  kill, die, stop                  Killed, Died, Stopped
//	                    Inspect the container            Observed, Removed
//	5. List again: every Watcher.Relist, on Refresh,
//	   and when events seem to be lost                   as 3, Synced
//	6. the stream ends, or the engine does not answer    Lost, then 1 after a back-off
//
// An event is a hint: what a container is follows from an inspection. Only the cause
// of an end (kill, die, stop) is taken from events, because no inspection has it.
// Subscribing before listing lets no change fall between the two.
//
// Talking to a particular engine is left to the packages below this one, and
// deciding what follows from an Update to package supervisor.
package runtime

import (
	"errors"
	"strings"
	"time"
)

// ErrNotFound is what Source.Inspect wraps when the engine does not know the container.
var ErrNotFound = errors.New("no such container")

// ErrRefused is what errors of requests wrap that the engine, or a proxy before it, does not allow: nothing was done.
var ErrRefused = errors.New("the request is not allowed")

// Refusal returns an ErrRefused with a text of its own, which names the request.
func Refusal(text string) error { return refusal(text) }

type refusal string

func (r refusal) Error() string        { return string(r) }
func (r refusal) Is(target error) bool { return target == ErrRefused }

// State is a container's state as the Docker API names it.
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
// a run is the ID and the start together. It is zero for a container that never ran.
type Run struct {
	ID      string
	Started int64 // nanoseconds since the Unix epoch
}

// Container is one container as an inspection showed it. Nobody changes it after
// it was made, so goroutines may share it.
type Container struct {
	Runtime string // name of the runtime, e.g. "docker"
	ID      string // full ID; healthd's own where the engine's is not unique, see EngineID
	// Namespace is the engine's namespace that the container is in; empty in its default one,
	// and if the engine has none.
	Namespace string
	Name      string // without the slash, as ClipName returns it
	// SharesName says that its engine gives the name to others of the namespace, too: names are
	// labels. Else a newer container of the name takes it from an older one.
	SharesName bool
	Image      string // as given when it was created, e.g. "nginx:1.29"
	ImageID    string // digest of the image; empty when the engine does not say
	Labels     map[string]string
	Env        []string // "NAME=value" each; may hold secrets
	EnvClipped bool     // there is more of Env than healthd reads

	State      State
	StartedAt  time.Time // zero when it never ran
	FinishedAt time.Time // end of the newest run that ended; zero when none did
	ExitCode   int       // of the run that ended at FinishedAt; meaningless while it is alive
	OOMKilled  bool      // of the same run; meaningless while it is alive
	Error      string    // why the engine could not start it, if so

	// Pid is the main process as healthd's host counts; 0 while there is none, and if the
	// engine is on another host. It changes with the run.
	Pid int

	Address string // where probes go: an IP address; empty when there is none
	Network string // name of the network that Address belongs to: a run's stays while it has that
	// Networks are all in which the container has an address, by name; none while it does not run.
	Networks []NetworkAddress
	// HostPorts are those that the engine publishes while it runs: sorted, at most MaxHostPorts. They may change
	// with the run. Of a container in another one's network they are the owner's.
	HostPorts   []HostPort
	HostNetwork bool // it runs in the host's network: its ports are the host's
	// NetworkOwner is the ID of the container whose network this one uses (network
	// mode "container:ID"); empty otherwise. Address is then the owner's.
	NetworkOwner string
	// NetworkOwnerStartedAt is when the owner's present run began; zero while the
	// owner does not run.
	NetworkOwnerStartedAt time.Time
	NetworkOwnerGone      bool // the engine no longer knows the owner
	// Fingerprint equals Summary.Fingerprint while the container's address and run
	// are those of this inspection.
	Fingerprint string

	RestartPolicy  string        // the engine carries it out: "no", "always", "unless-stopped", "on-failure"
	RestartsUsedUp bool          // the engine has restarted it as often as "on-failure" allows
	AutoRemove     bool          // --rm: the engine removes it when it ends
	StopSignal     string        // as configured, e.g. "SIGQUIT" or "3"; empty for SIGTERM
	StopTimeout    time.Duration // negative when none is configured
	// Resources describes the engine's limits for the container (CPU, memory …). It
	// is only compared, to see a change, and has no fixed format.
	Resources string
	// HasHealthcheck says that the image or the container has a HEALTHCHECK, which
	// the engine runs.
	HasHealthcheck bool

	// From is from where healthd asks it; nil: from the host, where every address is reached.
	From *Vantage
	Self bool // healthd itself runs in it
}

// HasRestartPolicy says that the engine has a restart policy of its own for the container.
func (c *Container) HasRestartPolicy() bool { return c.RestartPolicy != "" && c.RestartPolicy != "no" }

// LeftDown says that the engine's own restart policy has the container started after its last exit, and that the
// engine is not about to. It tried once and could not, or a client has stopped the container, or has sent it any
// signal, or has tried to (moby#41302). Podman and containerd show it, too, for some seconds before they start it.
func (c *Container) LeftDown() bool {
	onFailure := strings.HasPrefix(c.RestartPolicy, "on-failure")
	return c.State == Exited && c.HasRestartPolicy() && !(onFailure && (c.ExitCode == 0 || c.RestartsUsedUp))
}

// Run returns the identity of the container's present or last run.
func (c *Container) Run() Run {
	if c.StartedAt.IsZero() {
		return Run{}
	}
	return Run{ID: c.ID, Started: c.StartedAt.UnixNano()}
}

// RunHint says which run of its container an event belongs to. It follows from the order
// of events, in which a run's start event comes before all that happens to the run.
type RunHint struct {
	Run   Run  // the run that the container was last Observed with; zero: not observed yet
	Newer bool // a start event came since: the event is of a run after Run, not Observed yet
	// Started is the time of the newest start that the engine told before the event; zero:
	// none, in the engine's present life.
	Started   time.Time
	StartLost bool // a newer start must have been, but its event is lost
}

// Old says that the engine has told of no start since it started itself: the run began
// before.
func (h RunHint) Old() bool { return h.Started.IsZero() && !h.StartLost }

// startEventDelay is how long after a start its event may come. A later event is of
// another start.
const startEventDelay = 5 * time.Second

// IsStart says whether a start event of that time is that of the run. Both times are of one
// engine's clock and a moment apart, so a clock that is set hardly ever comes between.
func (r Run) IsStart(event time.Time) bool {
	if event.IsZero() || r == (Run{}) {
		return false
	}
	since := event.UnixNano() - r.Started
	return since >= 0 && since <= int64(startEventDelay)
}

// Action is what an event reports, as the Docker API names it.
type Action string

// The actions that a Source reports. Each makes the Watcher inspect the container,
// except ActionExec. Kill, die and stop carry a cause that no inspection shows.
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
	// ActionExec says nothing about the container. Engines keep only their newest
	// events, and exec probes soon fill that history. Reporting exec events keeps
	// Update.SeenUntil within it, so that a reconnect can tell what was missed.
	ActionExec Action = "exec_die"
)

// Event is one entry of an engine's event stream.
type Event struct {
	ID       string // of the container
	Action   Action
	Signal   int  // of a kill; 0 when the engine named none
	ExitCode int  // of a die
	ByOthers bool // of a stop: it is certainly not healthd's
	Time     time.Time
	Name     string            // of the container; empty when the event has none
	Image    string            // of the container, as given when it was created; empty when the event has none
	Labels   map[string]string // of the container; nil when the event has none
}

// Summary is one container in a list: enough to see whether it must be inspected.
type Summary struct {
	ID        string
	Namespace string // see Container
	Name      string // as the engine tells it
	Image     string // as it was asked for, or its ID
	Labels    map[string]string
	State     State
	// Fingerprint changes when the container's address or run may have changed. It is
	// only compared with Container.Fingerprint, and has no fixed format.
	Fingerprint string
	// EarliestChange and LatestChange bound the newest start of a container that is
	// alive, or the newest end of one that is not: a list says "Up 5 minutes". Both
	// are zero when the list does not say.
	EarliestChange, LatestChange time.Time
	Self                         bool // healthd itself runs in it
}

// Matches says whether the list shows the container as c does, so that it need not be
// inspected again.
func (s Summary) Matches(c *Container) bool {
	if ClipName(s.Name) != c.Name || s.State != c.State || s.Fingerprint != c.Fingerprint {
		return false
	}
	if s.LatestChange.IsZero() {
		return true
	}
	at := c.FinishedAt
	if s.State.Alive() {
		at = c.StartedAt
	}
	return !at.Before(s.EarliestChange) && !at.After(s.LatestChange)
}

// Unseen is a container that its engine lists, but that could not be inspected: what it is, is not known.
type Unseen struct {
	Summary
	Err error // why not
}

// UpdateKind says what an Update reports.
type UpdateKind int

// The kinds of updates.
const (
	// Observed: an inspection just showed the container as Container.
	Observed UpdateKind = iota + 1
	// Removed: container ID no longer exists, or is Unwanted. That one is Removed again when
	// it no longer exists.
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
	// Time is when it happened by the engine's clock; zero when the engine does not say.
	// That clock may differ from healthd's, and may be set at any moment: what came first
	// follows from the order of updates, not from their times.
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

	Signal   int  // of a Killed; 0 when the engine named none
	ExitCode int  // of a Died
	ByOthers bool // of a Stopped; see Event
	// Of is, for Killed, Died and Stopped, the run that they belong to.
	Of RunHint
	// Late says, of Killed, Died and Stopped, that the engine told it from its history:
	// the moment of its arrival says nothing of when it happened.
	Late bool

	Unwanted bool // of a Removed: it still exists, but Watcher.Wanted refuses it

	Reason       string   // of a Synced: one of the Relist constants
	NotInspected []string // of a Synced: IDs that were listed but could not be inspected
	Unseen       []Unseen // of a Synced: those of them that never were

	Err error // of a Lost

	Replay Replay // of a Connected
	// EngineKills is set for Connected with ReplayRestart when the engine runs without
	// live-restore. Such an engine kills, when it starts, all containers that are still
	// running. A signal to a run of before (RunHint.Old) came from the engine, not from
	// an operator.
	EngineKills bool
	// EngineBegan is set for Connected with ReplayRestart when the engine has dropped some
	// of its events since its start: it is when the engine started, by its own clock. Why a run
	// ended after that may be lost.
	EngineBegan time.Time
	// ClockOffset is, of a Connected and a Synced, how far the engine's clock is ahead of
	// healthd's; negative: behind. It is 0 when they differ by less than clockTolerance, as
	// clocks of one host do.
	ClockOffset time.Duration

	// Lag is how long after the newest event healthd read it. It is zero when no new
	// lag was measured since the update before.
	Lag time.Duration
	// SeenUntil is the time of an event. Whoever has processed this update and all
	// before it has processed all events up to that time, and a later Watcher may
	// start with it as Since. Zero: no event was received yet.
	SeenUntil time.Time
}
