package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"healthd/configs"
	"healthd/runtime"
	"healthd/supervisor/api"
)

// bystanders are containers that healthd leaves alone, one of them with a name and an image that nobody
// should print as they are.
func bystanders() api.Unsupervised {
	why := []string{"it has no label that begins with healthd.", "spec web (/etc/healthd/healthd.toml:12): it has no label app"}
	return api.Unsupervised{Away: []string{}, Containers: []api.Bystander{
		{Name: "db", ID: strings.Repeat("d", 64), Runtime: "docker", Image: "postgres:17", State: "running", Why: why},
		{Name: "evil\x1b[2J", ID: strings.Repeat("e", 64), Runtime: "docker", Image: "a\x1b]0;b", State: "exited", Why: []string{`it has the label healthd.enable="false"`}},
		{Name: "twin", ID: "twin", Runtime: "containerd", Namespace: "a", Why: why}, {Name: "twin", ID: "b:twin", Runtime: "containerd", Namespace: "b", Why: why},
		{Name: "new", ID: "new", Runtime: "docker", Why: []string{notTakenIn}},
	}}
}

func TestStatusOfAll(t *testing.T) {
	socket, _ := daemonWith(t, &fake{left: bystanders()}, container("web-1", nil))
	got := inside("status", "--all", "--socket", socket)
	if got.code != 0 || got.stderr != "" || strings.Contains(got.stdout, "\x1b") ||
		!strings.Contains(got.stdout, "evil?[2J is not supervised: it has the label healthd.enable=\"false\"\n") || !strings.Contains(got.stdout, "\ncontainerd:b:twin ") {
		t.Errorf("%+v", got)
	}
	var all []api.Status
	got = inside("status", "--all", "-o", "json", "--socket", socket)
	if err := json.Unmarshal([]byte(got.stdout), &all); err != nil || len(all) != 6 || all[0].Unsupervised != "" || all[4].Namespace != "b" ||
		strings.Count(got.stdout, `"unsupervised"`) != 5 {
		t.Errorf("%v: %+v", err, got)
	}
}

// An engine that is away, and a healthd that has just begun, keep nobody from seeing the rest.
func TestStatusOfAllThatMayMissSome(t *testing.T) {
	f := &fake{left: bystanders(), starting: true}
	f.left.Away = []string{"podman: nobody answers\x1b"}
	socket, _ := daemonWith(t, f, container("web-1", nil))
	got := inside("status", "--all", "-o", "name", "--socket", socket)
	const want = "warning: not all containers are known yet\nhealthd: cannot list the containers of podman: nobody answers?\n"
	if got.code != 1 || got.stderr != want || !strings.HasPrefix(got.stdout, "web-1\ndb\n") {
		t.Errorf("%+v", got)
	}
	const notes = "(not all containers are known yet; the containers of an engine are not known: podman: nobody answers?)"
	if got := inside("explain", "dbb", "--socket", socket); got.stderr != "healthd: cannot explain dbb: no container has that name or ID "+notes+": did you mean db?\n" {
		t.Errorf("%+v", got)
	}
	if got := inside("explain", "db", "--socket", socket); got.code != 0 || !strings.Contains(got.stdout, "  note      not all containers are known yet\n") {
		t.Errorf("%+v", got)
	}
}

func TestExplainBystanders(t *testing.T) {
	socket, _ := daemonWith(t, &fake{left: bystanders()}, container("web-1", nil))
	golden(t, "explain-bystander.txt", inside("explain", "db", "--socket", socket).stdout)
	for name, want := range map[string]string{
		"dddd": "db is not supervised", "id:b:twin": "containerd, b:twin", "containerd:a:twin": "containerd, twin",
		"evil\x1b[2J": "evil?[2J is not supervised", "new": "not taken it in yet\n",
	} {
		if got := inside("explain", name, "--socket", socket); got.code != 0 || !strings.Contains(got.stdout, want) || strings.Contains(got.stdout, "\x1b") {
			t.Errorf("%s: %+v", name, got)
		}
	}
	for name, want := range map[string]string{
		"dbb": "no container has that name or ID: did you mean db?", "web": "no container has that name or ID: did you mean web-1?",
		"nothing": "no container has that name or ID", "twin": "several containers have that name: containerd:a:twin, containerd:b:twin",
	} {
		if got := inside("explain", name, "--socket", socket); got.code != 1 || got.stderr != "healthd: cannot explain "+name+": "+want+"\n" || got.stdout != "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A spec does not help a container that docker compose run made.
func TestNextOfAOneOff(t *testing.T) {
	labels := map[string]string{"com.docker.compose.oneoff": "True", "com.docker.compose.project": "shop"}
	config, err := configs.Parse("healthd.toml", []byte("[[spec]]\nname = \"a\"\nmatch_name = \"*\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	for want, of := range map[string]map[string]string{
		"if it shall be supervised, make it anew with docker compose run -l healthd.enable=true": labels,
		"make it anew without the label healthd.enable":                                          {"healthd.enable": "false"},
	} {
		b := &api.Bystander{Why: config.WhyNot(runtime.Traits{Name: "shop-web-run-1", Labels: of})}
		if got := nextOf(b); got != want {
			t.Errorf("%v: %s, want %s", of, got, want)
		}
	}
}

// What is called by another container's full ID is not meant by it.
func TestFindBystander(t *testing.T) {
	id := strings.Repeat("ab", 32)
	if b, _ := findBystander([]api.Bystander{{Name: id, ID: "other"}}, id); b != nil {
		t.Errorf("found %+v", b)
	}
}

func TestReasonOfManySpecs(t *testing.T) {
	why := slices.Repeat([]string{"x"}, 10)
	for brief, want := range map[bool]string{true: "x; x; x; and 7 more specs: healthd explain tells of them", false: strings.Join(why, "; ")} {
		if got := statusOf(api.Bystander{Why: why}, brief).Unsupervised; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// Who looks at a terminal sees a few reasons; what reads a pipe, or JSON, has them all.
func TestManyReasonsInAPipe(t *testing.T) {
	f := &fake{left: api.Unsupervised{Containers: []api.Bystander{{Name: "db", ID: "db", Runtime: "docker", Why: strings.Split("abcdefghij", "")}}}}
	socket, _ := daemonWith(t, f)
	const all, few = "a; b; c; d; e; f; g; h; i; j", "a; b; c; and 7 more specs"
	for _, tt := range []struct {
		columns int
		output  string
		want    string
	}{{0, asTable, all}, {120, asTable, few}, {0, asJSON, all}, {120, asJSON, all}} {
		got := insideTerminal(tt.columns, "status", "--all", "-o", tt.output, "--socket", socket)
		if got.code != 0 || !strings.Contains(got.stdout, tt.want) {
			t.Errorf("%d columns, %s: %+v, want %s", tt.columns, tt.output, got, tt.want)
		}
	}
}
