package main

import (
	"context"
	"errors"
	"strings"
	"testing"
)

func TestFleetHold(t *testing.T) {
	f := threeHosts()
	socket, _ := daemonWith(t, &fake{fleet: f}, container("here-1", nil))
	for _, tt := range []struct{ args, asked, said, failed string }{
		{"hold --fleet shop/web", "hold shop/web 0s", "shop/web: held on all hosts\n", ""},
		{"hold --fleet shop/web db --for 90m", "hold shop/web 1h30m0s, hold db 1h30m0s", "shop/web: held on all hosts for 1h30m0s\ndb: held on all hosts for 1h30m0s\n", ""},
		{"hold --fleet cart shop/cart", "hold shop/cart 0s", "shop/cart: held on all hosts\n", ""},
		{"resume --fleet shop/web", "resume shop/web", "shop/web: no longer held on all hosts\n", ""},
		{"resume --fleet api", "resume old/api", "old/api: no longer held on all hosts\n", ""}, // nobody has it any more
		{"hold --fleet web db", "hold db 0s", "db: held on all hosts\n", "healthd: cannot hold web: several services have that name: blog/web, shop/web\n"},
		{"hold --fleet shop/wbe", "", "", "healthd: cannot hold shop/wbe: no host of the fleet publishes such a service: did you mean shop/web?\n"},
		{"resume --fleet shop", "", "", "healthd: cannot resume shop: no host of the fleet publishes such a service; the project has shop/cart and shop/web\n"},
	} {
		f.asked = nil
		got := inside(append(strings.Fields(tt.args), "--socket", socket)...)
		if asked := strings.Join(f.asked, ", "); asked != tt.asked || got.stdout != tt.said || got.stderr != tt.failed || (got.code == 1) != (tt.failed != "") {
			t.Errorf("%s: asked %q, %+v, want %q, %q, %q", tt.args, asked, got, tt.asked, tt.said, tt.failed)
		}
	}
	f.asked = nil
	for args, want := range map[string]string{
		"hold --fleet db shop-web-1": "hold --fleet takes services, and shop-web-1 is a container",
		"hold --fleet h4:blog-web-1": "hold --fleet takes services, and h4:blog-web-1 is a container",
		"resume --fleet here-1":      "resume --fleet takes services, and here-1 is a container",
		"hold --fleet --all":         "hold --fleet takes services, not --all",
		"resume --fleet --all db":    "resume --fleet takes services, not --all",
		"hold --fleet":               "hold --fleet takes services",
	} {
		got := inside(append(strings.Fields(args), "--socket", socket)...)
		if got.code != 2 || !strings.HasPrefix(got.stderr, "healthd: "+want+"\n") || len(f.asked) > 0 {
			t.Errorf("%s: %+v, asked %q, want %q", args, got, f.asked, want)
		}
	}
}

func TestFleetHoldThatFails(t *testing.T) {
	f := threeHosts()
	socket, _ := daemonWith(t, &fake{fleet: f})
	run := func(args, said, failed string) {
		t.Helper()
		got := inside(append(strings.Fields(args), "--socket", socket)...)
		if got.stdout != said || got.stderr != failed || (got.code == 1) != (failed != "") {
			t.Errorf("%s: %+v, want %q, %q", args, got, said, failed)
		}
	}
	f.unheld = true
	run("resume --fleet db", "db: was not held on all hosts: nothing changes\n", "")
	f.err = errors.New("permission denied\x1b[2J")
	run("hold --fleet db shop/web", "", "healthd: cannot hold db: permission denied?[2J\nhealthd: cannot hold shop/web: permission denied?[2J\n")
	f.err = context.DeadlineExceeded
	run("hold --fleet db", "", "healthd: cannot hold db: no answer of etcd in time: context deadline exceeded\n")
	etcdAway(f)
	got := inside("hold", "--fleet", "db", "--socket", socket)
	if got.code != 1 || !strings.HasPrefix(got.stderr, "healthd: cannot hold db: etcd cannot be reached for ") || !strings.HasSuffix(got.stderr, "m: context deadline exceeded: no leader\n") {
		t.Errorf("%+v", got)
	}
}
