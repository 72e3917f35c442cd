package core

import (
	"time"

	"healthd/runtime"
)

// memoryV1 is the first JSON form of a Memory: flat, and without a version.
type memoryV1 struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Runtime   string    `json:"runtime"`
	Identity  string    `json:"identity"`
	Image     string    `json:"image"`
	Resources string    `json:"resources"`
	Gone      time.Time `json:"gone"`
	Left      bool      `json:"left"`

	Run       runtime.Run         `json:"run"`
	RunBefore runtime.Run         `json:"runBefore"`
	StartedAt time.Time           `json:"startedAt"`
	Alive     bool                `json:"alive"`
	Started   bool                `json:"started"`
	StartedCh time.Time           `json:"startedChanged"`
	Able      bool                `json:"able"`
	Ready     bool                `json:"ready"`
	ReadyCh   time.Time           `json:"readyChanged"`
	Hooks     [numHooks]HookState `json:"hooks"`
	Exit      Exit                `json:"exit"`
	LastExit  Exit                `json:"lastExit"`

	Stopping  Cause         `json:"stopping"`
	StopCalls int           `json:"stopCalls"`
	OwnKills  int           `json:"ownKills"`
	KillDue   time.Time     `json:"killDue"`
	Grace     time.Duration `json:"grace"`
	Restart   Cause         `json:"restart"`
	Starting  bool          `json:"starting"`
	NotBefore time.Time     `json:"notBefore"`

	KilledAt        time.Time `json:"killedAt"`
	KilledLast      time.Time `json:"killedLast"`
	KillForgotten   time.Time `json:"killForgotten"`
	Survived        bool      `json:"survived"`
	OperatorStopped bool      `json:"operatorStopped"`
	Doubtful        bool      `json:"doubtful"`
	Died            bool      `json:"died"`

	Backoff   BackoffState   `json:"backoff"`
	Restarts  [numCauses]int `json:"restarts"`
	Held      bool           `json:"held"`
	HeldUntil time.Time      `json:"heldUntil"`
	Down      Outage         `json:"down"`
	Gates     []Gate         `json:"gates"`
	Granted   []time.Time    `json:"granted"`
}

func (v *memoryV1) memory() Memory {
	ready := Condition{v.Ready, v.ReadyCh}
	k := Kept{
		Engine: Engine{State: runtime.Exited, Resources: v.Resources},
		Run: Run{
			ID: v.Run, Before: v.RunBefore, StartedAt: v.StartedAt, Hooks: v.Hooks, Died: v.Died, Exit: v.Exit, LastExit: v.LastExit,
		},
		Action: Action{
			Stopping: v.Stopping, StopCalls: v.StopCalls, Grace: v.Grace, Restart: v.Restart, NotBefore: v.NotBefore,
		},
		Ending: Ending{
			OwnSignals: v.OwnKills, First: v.KilledAt, ForgetAt: v.KillForgotten,
			Survived: v.Survived, MaybeEngine: v.Doubtful,
		},
		Conditions: Conditions{Started: Condition{v.Started, v.StartedCh}, ContainerReady: ready, Ready: ready},
		Lasting:    Lasting{Backoff: v.Backoff, Restarts: v.Restarts, HeldHere: v.Held, HeldHereUntil: v.HeldUntil},
	}
	if !v.KillDue.IsZero() {
		k.Ending.OwnAt = v.KillDue.Add(killSlack - v.Grace)
	}
	if !v.KilledLast.IsZero() {
		k.Ending.Heard[0] = v.KilledLast.UnixNano()
	}
	switch {
	case v.Alive:
		k.Engine.State = runtime.Running
	case v.OperatorStopped:
		k.Ending.By = EndedByOperator
	case v.Stopping != NoCause:
		k.Ending.By = EndedByHealthd
	case !v.Exit.FinishedAt.IsZero():
		k.Ending.By = EndedByItself
	}
	if v.Starting {
		k.Action.Call = StartCall
	}
	return Memory{
		Facts: Facts{
			ID: v.ID, Name: v.Name, Runtime: v.Runtime, Identity: v.Identity, Image: v.Image,
			Gone: v.Gone, DroppedByReload: v.Left, Kept: &k, ReadinessSucceeded: v.Able, Down: v.Down,
		},
		Gates: v.Gates, Granted: v.Granted,
	}
}
