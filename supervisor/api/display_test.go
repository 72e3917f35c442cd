package api

import "testing"

func TestDisplayNames(t *testing.T) {
	all := []Status{
		{Name: "web", Runtime: "docker"}, {Name: "web", Runtime: "containerd", Namespace: "blog"}, {Name: "db", Runtime: "docker"},
		{Name: "new", Runtime: "docker", ID: "1"}, {Name: "new", Runtime: "docker", ID: "2"},
	}
	DisplayNames(all)
	for i, want := range []string{"docker:web", "containerd:blog:web", "db", "new", "new"} {
		if all[i].Name != want {
			t.Errorf("got %s, want %s", all[i].Name, want)
		}
	}
}
