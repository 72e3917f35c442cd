package supervisor

import (
	"time"

	"healthd/supervisor/core"
)

// FlightRecord is what is known of a container at a failure, for people. Package recorder makes it. The
// values of the container's environment are not in it.
type FlightRecord struct {
	Run        int                `json:"run"` // counts the container's runs from 1; see RecordInfo
	Container  string             `json:"container"`
	ID         string             `json:"id"`
	Runtime    string             `json:"runtime"`
	Image      string             `json:"image"`
	Identity   string             `json:"identity"`
	Service    string             `json:"service"`
	Spec       string             `json:"spec"`
	Time       time.Time          `json:"time"`
	Cause      string             `json:"cause"` // one of the Record constants
	Message    string             `json:"message"`
	StartedAt  time.Time          `json:"startedAt,omitzero"` // by the engine's clock, as FinishedAt
	FinishedAt time.Time          `json:"finishedAt,omitzero"`
	RanSeconds float64            `json:"ranSeconds"`
	ExitCode   int                `json:"exitCode,omitempty"` // of a crash
	Restarts   int                `json:"restarts"`           // before it
	Probes     []RecordedProbe    `json:"probes"`
	Command    RecordedCommand    `json:"command,omitzero"` // what was asked inside; zero: nothing
	Log        RecordedLog        `json:"log"`
	Processes  RecordedProcesses  `json:"processes"`
	Usage      RecordedUsage      `json:"usage"`
	Events     []core.Event       `json:"events"` // oldest first
	Inspection RecordedInspection `json:"inspection"`
}

// The causes of a FlightRecord.
const (
	RecordLiveness  = "liveness"
	RecordStartup   = "startup"
	RecordPostStart = "post_start"
	RecordCrash     = "crash"
	RecordOOM       = "oom"
)

// RecordInfo tells of a FlightRecord that is kept. A container's first run is 1, the one after its first
// restart 2; a run that would get the number of an earlier one gets the next.
type RecordInfo struct {
	Run   int       `json:"run"`
	Time  time.Time `json:"time"`
	Cause string    `json:"cause"`
	Bytes int       `json:"bytes"` // as it is kept, compressed
	File  string    `json:"-"`     // its name; unique
}

// RecordedProbe is a probe with its newest results.
type RecordedProbe struct {
	Type             string           `json:"type"`
	FailureThreshold int              `json:"failureThreshold"`
	Results          []RecordedResult `json:"results"` // oldest first
}

// RecordedResult is a result of a probe.
type RecordedResult struct {
	Time           time.Time `json:"time"`
	Outcome        string    `json:"outcome"`
	Cause          string    `json:"cause"`
	Warning        bool      `json:"warning"`
	LatencySeconds float64   `json:"latencySeconds"`
	Output         string    `json:"output"`
	Dropped        bool      `json:"dropped"` // it had an output, which is not kept any more
}

// RecordedCommand is what a command inside the container said.
type RecordedCommand struct {
	Command  []string `json:"command"`
	Output   string   `json:"output"`
	Cut      bool     `json:"cut"` // there was more
	ExitCode int      `json:"exitCode"`
	TimedOut bool     `json:"timedOut"`
	Error    string   `json:"error,omitempty"` // why nothing is known
}

// RecordedLog is the end of what the container wrote.
type RecordedLog struct {
	Lines []RecordedLine `json:"lines"`
	Cut   bool           `json:"cut"` // lines are missing that were asked for
	Error string         `json:"error,omitempty"`
}

// RecordedLine is a line of a log.
type RecordedLine struct {
	Time time.Time `json:"time,omitzero"`
	Text string    `json:"text"`
}

// RecordedProcesses are what ran in the container.
type RecordedProcesses struct {
	Titles []string   `json:"titles"`
	Rows   [][]string `json:"rows"`
	More   int        `json:"more"` // left out
	Error  string     `json:"error,omitempty"`
}

// RecordedUsage is what the container used. A limit of 0 is none.
type RecordedUsage struct {
	MemoryBytes      int     `json:"memoryBytes"`
	MemoryLimitBytes int     `json:"memoryLimitBytes"`
	CPUCores         float64 `json:"cpuCores"` // in the moments before: 1 is a whole CPU
	CPUSeconds       float64 `json:"cpuSeconds"`
	ThrottledSeconds float64 `json:"throttledSeconds"`
	PIDs             int     `json:"pids"`
	PIDsLimit        int     `json:"pidsLimit"`
	Error            string  `json:"error,omitempty"`
}

// RecordedInspection is the container as its engine showed it.
type RecordedInspection struct {
	State              string            `json:"state"`
	PID                int               `json:"pid,omitempty"`
	ImageID            string            `json:"imageId"`
	Address            string            `json:"address"`
	Network            string            `json:"network"`
	Resources          string            `json:"resources"` // limits
	RestartPolicy      string            `json:"restartPolicy"`
	StopSignal         string            `json:"stopSignal"`
	StopTimeoutSeconds float64           `json:"stopTimeoutSeconds"` // negative: none
	EngineError        string            `json:"engineError,omitempty"`
	Environment        []string          `json:"environment"` // names only
	Labels             map[string]string `json:"labels"`
}
