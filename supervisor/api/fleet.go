package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Fleet is what the API needs of the hosts that share their members over etcd.
type Fleet interface {
	// View returns how the fleet is as far as this host knows. It never blocks.
	View() FleetView
	// Hold pauses restarts of a service on all hosts, for d or, if that is 0, until a resume. A second hold replaces
	// the first.
	Hold(ctx context.Context, service string, d time.Duration) error
	// Resume ends the hold of a service. ErrNoFleetHold: there is none.
	Resume(ctx context.Context, service string) error
}

// ErrNoFleetHold says that a service is not held on all hosts.
var ErrNoFleetHold = errors.New("the service is not held on all hosts")

// FleetView is the fleet as one host knows it. While etcd is away, members of other hosts are as last known.
type FleetView struct {
	Host      string        `json:"host"`            // this one
	Connected bool          `json:"connected"`       // to etcd
	Since     time.Time     `json:"since"`           // it is connected, or not; zero: it has not tried yet
	Error     string        `json:"error,omitempty"` // why it is not
	Endpoints []string      `json:"endpoints"`       // of etcd
	Hosts     []FleetHost   `json:"hosts"`
	Members   []FleetMember `json:"members"` // sorted by service, host and container
	Holds     []FleetHold   `json:"holds"`
	WrongKeys int           `json:"wrongKeys"` // in etcd, left alone because they cannot be read
	Problems  []string      `json:"problems"`  // such as two daemons of one name
}

// States of a FleetHost.
const (
	FleetHostLive = "live"
	FleetHostLost = "lost" // its lease has expired
	FleetHostLeft = "left" // it has ended on purpose
)

// FleetHost is a host of the fleet, with the number of its members by their states.
type FleetHost struct {
	Name     string    `json:"name"`
	State    string    `json:"state"`
	Since    time.Time `json:"since"`
	Address  string    `json:"address"` // that others reach its members at
	Version  string    `json:"version"`
	Balancer bool      `json:"balancer"` // its healthd pushes to HAProxy
	Ready    int       `json:"ready"`
	Draining int       `json:"draining"`
	Down     int       `json:"down"`
}

// FleetMember is a published container of a host, this one included.
type FleetMember struct {
	Service   string `json:"service"`
	Host      string `json:"host"`
	Container string `json:"container"`
	Address   string `json:"address"`
	Port      int    `json:"port"`
	State     string `json:"state"`            // as supervisor.Member.State
	Reason    string `json:"reason,omitempty"` // why it is not ready
}

// FleetHold pauses restarts of a service on all hosts.
type FleetHold struct {
	Service string    `json:"service"`
	By      string    `json:"by"` // the host on which somebody asked for it
	Since   time.Time `json:"since"`
	For     string    `json:"for,omitempty"` // a duration; empty: until a resume
}

// FleetHeld is what a hold of the fleet, or its end, has changed.
type FleetHeld struct {
	Service string `json:"service"`
	Held    bool   `json:"held"`
	For     string `json:"for,omitempty"`
}

// fleetHeader is on the overview of a host that is in a fleet: the page asks for no fleet where there is none.
const fleetHeader = "Healthd-Fleet"

const noFleet = "this healthd is in no fleet: write [fleet] into its configuration, with the endpoints of etcd"

// fleetView answers with the fleet; with ?members=false without its members, of which there may be many.
func (a *API) fleetView(w http.ResponseWriter, r *http.Request) {
	if a.fleet == nil {
		a.fail(w, http.StatusNotFound, noFleet)
		return
	}
	members := true
	if s := r.URL.Query().Get("members"); s != "" {
		var err error
		if members, err = strconv.ParseBool(s); err != nil {
			a.fail(w, http.StatusBadRequest, fmt.Sprintf("members must be true or false, it is %q", s))
			return
		}
	}
	v := a.fleet.View()
	if !members {
		v.Members = nil
	}
	v.Endpoints, v.Problems = listed(v.Endpoints), listed(v.Problems)
	v.Hosts, v.Members, v.Holds = listed(v.Hosts), listed(v.Members), listed(v.Holds)
	a.json(w, http.StatusOK, v)
}

// listed returns a list that is not null in JSON.
func listed[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// fleetTimeout limits what a request may wait for etcd.
const fleetTimeout = 5 * time.Second

// fleetHold answers when etcd has the hold.
func (a *API) fleetHold(w http.ResponseWriter, r *http.Request) {
	d, err := holdDuration(r)
	if err != nil {
		a.fail(w, http.StatusBadRequest, err.Error())
		return
	}
	held := FleetHeld{Service: serviceName(r), Held: true}
	if d > 0 {
		held.For = d.String()
	}
	a.changeFleet(w, r, held, func(ctx context.Context) error { return a.fleet.Hold(ctx, held.Service, d) })
}

// fleetResume answers when etcd no longer has the hold.
func (a *API) fleetResume(w http.ResponseWriter, r *http.Request) {
	service := serviceName(r)
	a.changeFleet(w, r, FleetHeld{Service: service}, func(ctx context.Context) error { return a.fleet.Resume(ctx, service) })
}

// changeFleet has a change of a service carried out, and answers with what then is.
func (a *API) changeFleet(w http.ResponseWriter, r *http.Request, then FleetHeld, change func(context.Context) error) {
	if a.fleet == nil {
		a.fail(w, http.StatusNotFound, noFleet)
		return
	}
	v := a.fleet.View()
	switch {
	case !v.Connected:
		a.fail(w, http.StatusServiceUnavailable, v.AwayText(time.Now()))
		return
	case !v.hasService(then.Service):
		a.fail(w, http.StatusNotFound, fmt.Sprintf("no host of the fleet publishes a service %q", then.Service))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), fleetTimeout)
	defer cancel()
	switch err := change(ctx); {
	case err == nil:
		a.json(w, http.StatusOK, then)
	case errors.Is(err, ErrNoFleetHold):
		a.fail(w, http.StatusConflict, err.Error())
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		a.fail(w, http.StatusGatewayTimeout, "no answer of etcd in time: "+err.Error())
	default:
		a.fail(w, http.StatusServiceUnavailable, err.Error())
	}
}

// hasService says whether a host publishes a service of that full name, or somebody holds it.
func (v *FleetView) hasService(name string) bool {
	return slices.ContainsFunc(v.Members, func(m FleetMember) bool { return m.Service == name }) ||
		slices.ContainsFunc(v.Holds, func(h FleetHold) bool { return h.Service == name })
}

// AwayText says since when etcd cannot be reached, and why.
func (v *FleetView) AwayText(now time.Time) string {
	text := "etcd cannot be reached"
	if !v.Since.IsZero() {
		text += " for " + span(now.Sub(v.Since))
	}
	if v.Error != "" {
		text += ": " + v.Error
	}
	return text
}

// span writes a duration in seconds, or from a minute on in minutes.
func span(d time.Duration) string {
	if d < time.Minute {
		return max(0, d).Truncate(time.Second).String()
	}
	return strings.TrimSuffix(d.Truncate(time.Minute).String(), "0s")
}
