package fleet

import "time"

// Status is what a Fleet knows at one moment. It never changes.
type Status struct {
	Connected bool      // the watch of the store is live
	Since     time.Time // when Connected became what it is
	Error     string    // why it is not Connected, or cannot publish; empty: nothing is wrong
	Revision  int64     // of the store, up to which all is known; 0: nothing is
	Host      string    // this one
	Began     time.Time // this daemon
	Balancer  bool      // this host pushes to HAProxy
	Prefix    string
	Published int      // members of this host that the store has
	Hosts     []Host   // the others, sorted by name
	WrongKeys []string // keys that are none of healthd's, as far as they are kept, sorted
}

// Host is another host of the fleet. One that is lost or left is forgotten after a day.
type Host struct {
	Name       string
	State      HostState
	Since      time.Time // when this healthd saw the state begin
	Address    string
	Version    string
	Balancer   bool
	Files      bool
	RuntimesUp bool // it knows all its containers
	Members    MemberCounts
}
