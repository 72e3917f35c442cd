package api

import "testing"

func TestDisplayNames(t *testing.T) {
	all := []Status{
		{Name: "web", Runtime: "docker", ID: "1"}, {Name: "web", Runtime: "containerd", Namespace: "blog", ID: "blog:1"}, {Name: "db", Runtime: "docker", ID: "2"},
		{Name: "twice", Runtime: "containerd", ID: "3"}, {Name: "twice", Runtime: "containerd", ID: "4"},
	}
	DisplayNames(all)
	for i, want := range []string{"docker:web", "containerd:blog:web", "db", "id:3", "id:4"} {
		if all[i].Name != want {
			t.Errorf("got %s, want %s", all[i].Name, want)
		}
	}
}
