package main

import (
	"strings"
	"testing"
	"time"

	"healthd/runtime/docker/dockertest"
	"healthd/supervisor"
	"healthd/supervisor/core"
)

func TestHold(t *testing.T) {
	f := &fake{}
	socket, _ := daemonWith(t, f, container("web-1", nil))
	for _, tt := range []struct{ args, asked, said string }{
		{"hold web-1", "until a resume", "web-1: held\n"},
		{"hold web-1 --for 10m", "10m0s", "web-1: held for 10m0s\n"},
		{"hold --for 90m 0123456789abcdefweb-1", "1h30m0s", "web-1: held for 1h30m0s\n"},
		{"resume web-1", "", "web-1: was neither held nor given up: nothing changes\n"},
	} {
		got := inside(append(strings.Fields(tt.args), "--socket", socket)...)
		if got.code != 0 || got.stdout != tt.said || got.stderr != "" || f.hold != tt.asked {
			t.Errorf("%s: asked %q, %+v, want %q, %q", tt.args, f.hold, got, tt.asked, tt.said)
		}
	}
}

// A word is a container, else a service, else a project; what is refused keeps nothing from the rest.
func TestHoldOfSeveral(t *testing.T) {
	in := func(service string) func(*core.View) {
		return func(v *core.View) {
			v.Service, v.Container.Labels = service, map[string]string{core.ComposeProject: service[:strings.Index(service, "/")]}
		}
	}
	socket, _ := daemonWith(t, &fake{}, container("shop-web-1", in("shop/web")), container("shop-web-2", in("shop/web")), container("shop-db-1", func(v *core.View) {
		in("shop/db")(v)
		v.State.Lasting.HeldHere = true
	}),
		container("blog-web-1", in("blog/web")), container("db", in("blog/cache")))
	const held, unheld = ": held\n", ": was neither held nor given up: nothing changes\n"
	for _, tt := range []struct{ args, said, failed string }{
		{"hold shop-web-1 shop-web-1", "shop-web-1" + held, ""},
		{"hold shop/web", "shop-web-1" + held + "shop-web-2" + held, ""},
		{"hold shop", "shop-db-1" + held + "shop-web-1" + held + "shop-web-2" + held, ""},
		{"hold db", "db" + held, ""}, // the container
		{"hold cache shop-db-1", "db" + held + "shop-db-1" + held, ""},
		{"hold web", "", "healthd: cannot hold web: several services have that name: blog/web, shop/web\n"},
		{"hold nothing db", "db" + held, "healthd: cannot hold nothing: no supervised container has that name or ID, and no service or project\n"},
		{"hold shpo", "", "healthd: cannot hold shpo: no supervised container has that name or ID, and no service or project: did you mean shop?\n"},
		{"hold --all", "blog-web-1" + held + "db" + held + "shop-db-1" + held + "shop-web-1" + held + "shop-web-2" + held, ""},
		{"resume shop/web shop-db-1", "shop-web-1" + unheld + "shop-web-2" + unheld + "shop-db-1: no longer held\n", ""},
		{"resume --all", "shop-db-1: no longer held\n", ""}, // the others are not held
	} {
		got := inside(append(strings.Fields(tt.args), "--socket", socket)...)
		if got.stdout != tt.said || got.stderr != tt.failed || (got.code != 0) != (tt.failed != "") {
			t.Errorf("%s: %+v, want %q, %q", tt.args, got, tt.said, tt.failed)
		}
	}
	if got := inside("status", "shop", "-o", "name", "--socket", socket); got.stdout != "shop-db-1\nshop-web-1\nshop-web-2\n" {
		t.Errorf("status of a project: %+v", got)
	}
	for _, args := range []string{"hold", "hold --all web", "resume"} {
		if got := inside(append(strings.Fields(args), "--socket", socket)...); got.code != 2 {
			t.Errorf("%s: %+v", args, got)
		}
	}
}

// One wrong label, or one container that cannot be held, does not keep the others from it.
func TestHoldThatFails(t *testing.T) {
	in := func(held bool, wrong string) func(*core.View) {
		return func(v *core.View) {
			v.Container.Labels = map[string]string{core.ComposeProject: "mart"}
			if v.State.Lasting.HeldHere = held; wrong != "" {
				v.Spec, v.Service, v.Invalid = nil, "", wrong
			}
		}
	}
	socket, _ := daemonWith(t, &fake{refuse: "shop-2"}, container("shop-1", in(true, "")), container("shop-2", in(false, "")), container("shop-3", in(false, "")),
		container("wrong", in(false, "label healthd.x: unknown key")), container("given-up", func(v *core.View) {
			v.State.Health.Failed, v.State.Health.Wait = core.ByLiveness, core.Wait{Reason: core.WaitGaveUp}
		}))
	const refused = "healthd: cannot hold shop-2: the daemon is stopping\n"
	for _, tt := range []struct{ args, said, failed string }{
		{"hold mart", "shop-1: held\nshop-3: held\n", "warning: wrong is Invalid: there is nothing to hold, healthd restarts nothing of it\n" + refused},
		{"hold --all", "given-up: held\nshop-1: held\nshop-3: held\n", refused},
		{"resume --all", "given-up: no longer given up\nshop-1: no longer held\n", ""},
	} {
		got := inside(append(strings.Fields(tt.args), "--socket", socket)...)
		if got.stdout != tt.said || got.stderr != strings.ReplaceAll(tt.failed, "the daemon is stopping", supervisor.ErrStopping.Error()) ||
			(got.code == 1) != strings.Contains(tt.failed, "cannot") {
			t.Errorf("%s: %+v, want %q, %q", tt.args, got, tt.said, tt.failed)
		}
	}
}

// A project may have more containers than healthd knows yet. A container that is named is one.
func TestHoldWhileHealthdStarts(t *testing.T) {
	socket, _ := daemonWith(t, &fake{starting: true}, container("shop-1", func(v *core.View) {
		v.Container.Labels = map[string]string{core.ComposeProject: "mart"}
	}))
	const notAll = "healthd: cannot hold what healthd does not know yet: not ready: waiting for the first full list from docker (nobody answers)\n"
	for _, args := range []string{"mart", "--all"} {
		if got := inside("hold", args, "--socket", socket); got.code != 1 || got.stdout != "shop-1: held\n" || got.stderr != notAll {
			t.Errorf("%s: %+v, want %q", args, got, notAll)
		}
	}
	for _, name := range []string{"shop-1", "docker:shop-1", "id:0123456789abcdefshop-1", "01234567"} {
		if got := inside("hold", name, "--socket", socket); got.code != 0 || got.stdout != "shop-1: held\n" || got.stderr != "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestHoldCompletion(t *testing.T) {
	socket, _ := daemonWith(t, &fake{}, container("web-1", nil), container("web-2", nil))
	for args, want := range map[string]string{"hold": "shop web-1 web-2", "resume": "shop web-1 web-2", "hold web-1": "shop web-2", "resume web-1 shop": "web-2"} {
		words := append([]string{"__complete", "--socket", socket}, strings.Fields(args)...)
		got := inside(append(words, "")...)
		offered, _, _ := strings.Cut(got.stdout, ":4\n")
		if strings.Join(strings.Fields(offered), " ") != want || got.code != 0 {
			t.Errorf("%q: %+v, want %s", args, got, want)
		}
	}
}

func TestRestartOfAHeldContainer(t *testing.T) {
	socket, _ := daemonWith(t, &fake{err: supervisor.ErrHeld}, container("web-1", func(v *core.View) { v.State.Lasting.HeldHere = true }))
	got := inside("restart", "web-1", "--socket", socket)
	const want = "healthd: cannot restart web-1: an operator holds the container: resume it first (healthd resume web-1)\n"
	if got.code != 1 || got.stderr != want || got.stdout != "" {
		t.Errorf("%+v, want %q", got, want)
	}
}

func TestHeldText(t *testing.T) {
	s := statuses()[0]
	for until, want := range map[time.Time]string{
		{}:                                 "until a resume",
		clock.Add(time.Minute):             "for another 1m0s, until 2026-01-02 03:05:05",
		clock.Add(-time.Second):            "for another 0s, until 2026-01-02 03:04:04",
		clock.Add(1500 * time.Millisecond): "for another 2s, until 2026-01-02 03:04:06",
	} {
		s.HeldUntil = until
		if got := heldText(s, clock); got != want {
			t.Errorf("%v: %s, want %s", until, got, want)
		}
	}
}

// A container that hangs is not restarted while it is held, and is as soon as it no
// longer is.
func TestHoldOfADaemon(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-engines runs it")
	}
	engine := private.Engine(t)
	engine.Run(t, dockertest.RunOptions{Name: "hung", Labels: map[string]string{
		"healthd.liveness.tcp_socket.port": "1", "healthd.liveness.period": "100ms", "healthd.liveness.failure_threshold": "3",
		"healthd.liveness.initial_delay": "1s",
	}})
	p := startDaemon(t, engine.Endpoint, "")
	p.notify.await(t, "READY=1")
	do := func(want string, args ...string) {
		t.Helper()
		if got := healthd(t, append(args, "--socket", p.socket)...); got.code != 0 || !strings.Contains(got.stdout, want) {
			t.Errorf("%v: %+v, want %q", args, got, want)
		}
	}
	do("hung: held\n", "hold", "hung")
	p.follow(t, "hung", "healthd does not restart it while it is held")
	do("Held", "status", "hung")
	if got := healthd(t, "restart", "hung", "--socket", p.socket); got.code != 1 || !strings.Contains(got.stderr, "(healthd resume hung)") {
		t.Errorf("%+v", got)
	}
	do("hung: no longer held\n", "resume", "hung")
	p.follow(t, "hung", "Started container hung")
}
