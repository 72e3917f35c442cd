package main

import (
	"slices"
	"testing"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// Who believes that a limit holds over all hosts is told where it does not.
func TestGroupsOfOne(t *testing.T) {
	view := func(name string, group core.Group, labels map[string]string) *core.View {
		return &core.View{Container: &runtime.Container{Name: name, Labels: labels}, Spec: &core.Spec{Group: group}}
	}
	compose := map[string]string{"com.docker.compose.project": "shop", "com.docker.compose.service": "web"}
	fleet := core.Group{Fleet: true}
	well := []*core.View{
		view("host", core.Group{}, nil), view("named", core.Group{Name: "web", Fleet: true}, nil), view("compose", fleet, compose),
		{Container: &runtime.Container{Name: "invalid"}},
	}
	alone := []*core.View{view("a", fleet, nil), view("b", fleet, nil), view("c", fleet, nil), view("d", fleet, nil)}
	const begin, end = "fleet: only containers of the same name wait for ", ": a container that Compose has not made needs group.name to be in a group"
	for n, want := range map[int][]string{0: nil, 1: {begin + "a" + end}, 3: {begin + "a, b, c" + end}, 4: {begin + "a, b, c and 1 more" + end}} {
		if got := groupsOfOne(slices.Concat(well, alone[:n])); !slices.Equal(got, want) {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
}
