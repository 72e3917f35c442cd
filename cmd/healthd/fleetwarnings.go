package main

import (
	"fmt"
	"healthd/runtime"
	"healthd/supervisor"
	"healthd/supervisor/core"
	"net/netip"
	"slices"
	"strings"
)

// fleetWarnings returns what is wrong with the fleet, and which containers other hosts cannot reach.
func (d *daemon) fleetWarnings() (all []string) {
	if d.fleet == nil {
		return nil
	}
	if text := d.fleet.Status().Error; text != "" {
		all = append(all, "fleet: "+text)
	}
	return slices.Concat(all, unreached(d.supervisor.Board(), d.begun.Fleet.Advertise), groupsOfOne(d.supervisor.Board().Views()))
}

// maxNamed is how many containers a warning names.
const maxNamed = 3

// unreached warns of containers that other hosts cannot reach.
func unreached(board *supervisor.Board, advertise netip.Addr) (all []string) {
	for _, v := range board.Views() {
		if v.Service == "" || v.Spec == nil || v.Spec.Publish.Port == 0 || v.State.Engine.State != runtime.Running {
			continue
		}
		if _, _, why := advertised(v, advertise); why != "" {
			all = append(all, fmt.Sprintf("fleet: other hosts cannot reach %s: %s", board.NameOf(v.Container), why))
		}
	}
	if more := len(all) - maxNamed; more > 0 {
		return append(all[:maxNamed], fmt.Sprintf("fleet: other hosts cannot reach %d more containers", more))
	}
	return all
}

// groupsOfOne warns of containers that are to be in a group over all hosts and share theirs with their namesakes at most.
func groupsOfOne(views []*core.View) []string {
	var names []string
	for _, v := range views {
		if v.Spec != nil && v.Spec.Group.Fleet && v.Spec.Group.Name == "" && core.ServiceOf(v.Container.Labels) == "" {
			names = append(names, v.Container.Name)
		}
	}
	text := strings.Join(names[:min(len(names), maxNamed)], ", ")
	switch more := len(names) - maxNamed; {
	case len(names) == 0:
		return nil
	case more > 0:
		text += fmt.Sprintf(" and %d more", more)
	}
	return []string{"fleet: only containers of the same name wait for " + text + ": a container that Compose has not made needs group.name to be in a group"}
}
