package fleet

import "time"

// Status is what a Fleet knows at one moment. It never changes.
type Status struct {
	Connected bool      `json:"connected"`       // the watch of the store is live
	Since     time.Time `json:"since"`           // when Connected became what it is
	Error     string    `json:"error,omitempty"` // why it is not Connected, or cannot publish; empty: nothing is wrong
	Revision  int64     `json:"revision"`        // of the store, up to which all is known; 0: nothing is
	Host      string    `json:"host"`            // this one
	Began     time.Time `json:"began"`           // this daemon
	Balancer  bool      `json:"balancer"`        // this host pushes to HAProxy
	Prefix    string    `json:"prefix"`
	Published int       `json:"published"`           // members of this host that the store has
	LeaseEnds time.Time `json:"leaseEnds,omitzero"`  // at the earliest, unless it is renewed; zero: there is none
	Hosts     []Host    `json:"hosts"`               // the others, sorted by name
	WrongKeys []string  `json:"wrongKeys,omitempty"` // keys that are none of healthd's, as far as they are kept, sorted
}

// Host is another host of the fleet. One that is lost or left is forgotten after a day.
type Host struct {
	Name       string       `json:"name"`
	State      HostState    `json:"state"`
	Since      time.Time    `json:"since"` // when this healthd saw the state begin
	Address    string       `json:"address,omitempty"`
	Version    string       `json:"version,omitempty"`
	Balancer   bool         `json:"balancer"`
	Files      bool         `json:"files"`
	RuntimesUp bool         `json:"runtimesUp"` // it knows all its containers
	Members    MemberCounts `json:"members"`
}
