package main

import (
	"testing"

	"healthd/supervisor/api"
)

func TestDisplayNames(t *testing.T) {
	all := []api.Status{
		{Name: "web", Runtime: "docker"}, {Name: "web", Runtime: "containerd", Namespace: "blog"}, {Name: "db", Runtime: "docker"},
		{Name: "new", Runtime: "docker", ID: "1"}, {Name: "new", Runtime: "docker", ID: "2"},
	}
	displayNames(all)
	for i, want := range []string{"docker:web", "containerd:blog:web", "db", "new", "new"} {
		if all[i].Name != want {
			t.Errorf("got %s, want %s", all[i].Name, want)
		}
	}
}
