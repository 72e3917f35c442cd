package importer

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/types"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// fuzzFiles reads files of any content: what comes of them is valid.
func fuzzFiles(f *testing.F, source string, do func([]File) (*Document, error)) {
	files, err := filepath.Glob(filepath.Join("testdata", source, "*"))
	if err != nil || len(files) < 3 {
		f.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		doc, err := do([]File{{"f", data}})
		if err != nil {
			if doc != nil || len(err.Error()) > 1<<20 {
				t.Errorf("%v", err)
			}
			return
		}
		checked(t, doc)
	})
}

func FuzzKubernetes(f *testing.F) { fuzzFiles(f, "kubernetes", kubernetesNoDefect) }

func FuzzNomad(f *testing.F) { fuzzFiles(f, "nomad", nomadNoDefect) }

// noDefect makes a panic of an error that says that healthd has a defect.
func noDefect(doc *Document, err error) (*Document, error) {
	if _, own := err.(*defect); own {
		panic(err)
	}
	return doc, err
}

func kubernetesNoDefect(files []File) (*Document, error) { return noDefect(Kubernetes(files)) }

func nomadNoDefect(files []File) (*Document, error) { return noDefect(Nomad(files)) }

// FuzzDocker has containers with labels, variables and commands of any content.
func FuzzDocker(f *testing.F) {
	f.Add("web", "autoheal", "true", "AUTOHEAL_INTERVAL", "5", "CMD", "true", "always", int64(time.Second), 3)
	f.Add("\n]", "com.docker.compose.project", "*", "AUTOHEAL_CONTAINER_LABEL", "a\"\n[x]", "CMD-SHELL", "echo $$ $(x) \x00\xff", "on-failure", int64(-5), -1)
	f.Add("", "autoheal.stop.timeout", "0", "AUTOHEAL_RESTART_BUDGET", "1000", "NONE", "", "no", int64(1<<62), 1<<40)
	f.Fuzz(func(t *testing.T, name, label, value, variable, is, kind, command, policy string, ns int64, n int) {
		check := &runtime.Healthcheck{Test: []string{kind, command}, Interval: time.Duration(ns), StartPeriod: time.Duration(ns), StartInterval: time.Duration(ns / 7), Retries: n}
		labels := map[string]string{label: value, core.ComposeService: name}
		made := runtime.Creation{Healthcheck: check, RestartMax: n, Ports: []int{n, 80}}
		of := func(image, name string, labels map[string]string) Container {
			return Container{Container: &runtime.Container{ID: name, Name: name, Image: image, Labels: labels, RestartPolicy: policy, StopTimeout: time.Duration(ns), Env: []string{variable + "=" + is}, NetworkOwner: value}, Creation: made, ConfiguredBy: command}
		}
		all := []Container{of("will-luck/docker-guardian", is, nil), of("x", name, labels), of("x", name+"2", map[string]string{label: value, is: "true", core.ComposeProject: value}), of("autoheal:1", value, nil)}
		for _, wanted := range [][]Container{nil, all[1:2]} {
			doc, err := Docker(all, wanted)
			if err != nil {
				t.Fatal(err)
			}
			checked(t, doc)
		}
	})
}

// FuzzCompose has services with settings of any content, as Compose's reader may let them through.
func FuzzCompose(f *testing.F) {
	f.Add("shop", "web", "CMD", "true", "always", "autoheal", "true", "80", "service:db", uint64(3), int64(time.Second))
	f.Add("*", "\x1b]", "NONE", "\xff", "on-failure:9", "autoheal.stop.timeout", "-1", "80/udp", "container:x", uint64(0), int64(-1))
	f.Fuzz(func(t *testing.T, project, name, kind, command, policy, label, value, port, network string, n uint64, ns int64) {
		d, number := types.Duration(ns), int(n)
		s := types.ServiceConfig{
			Name:   name,
			Deploy: &types.DeployConfig{Replicas: &number, UpdateConfig: &types.UpdateConfig{Parallelism: &n}, RestartPolicy: &types.RestartPolicy{Condition: policy, Delay: &d, MaxAttempts: &n}},
		}
		s.Image, s.Labels, s.Restart, s.StopGracePeriod, s.NetworkMode, s.Expose = value, types.Labels{label: value}, policy, &d, network, []string{port}
		s.HealthCheck = &types.HealthCheckConfig{Test: []string{kind, command}, Interval: &d, Timeout: &d, StartPeriod: &d, Retries: &n}
		s.Ports = []types.ServicePortConfig{{Target: uint32(n)}}
		s.DependsOn = types.DependsOnConfig{value: {Condition: types.ServiceConditionHealthy, Restart: true}}
		s.PreStop = []types.ServiceHook{{Command: []string{command}}}
		bare := types.ServiceConfig{Name: name + "2"}
		bare.Image, bare.Environment = "autoheal", types.MappingWithEquals{"AUTOHEAL_CONTAINER_LABEL": &value, "AUTOHEAL_INTERVAL": &command}
		doc, err := Compose([]*types.Project{{Name: project, Services: types.Services{name: s, name + "2": bare}}})
		if err != nil {
			t.Fatal(err)
		}
		checked(t, doc)
	})
}

// FuzzQuote has texts of any content: TOML reads back what was written.
func FuzzQuote(f *testing.F) {
	f.Add("a\"b\\\n\t\u202e\U0001f600\x7f")
	f.Fuzz(func(t *testing.T, s string) {
		doc := newDocument("a test")
		spec, err := doc.add(s)
		if err != nil {
			t.Fatal(err)
		}
		spec.own.set("match_name", quote("x"+s))
		spec.own.remark("%s", s)
		spec.table("readiness").set("exec", execOf(literally([]string{"x" + s})).String())
		made, err := doc.finish()
		if err != nil {
			t.Fatal(err)
		}
		c := checked(t, made)
		if made.Lost > 0 {
			return
		}
		resolved, err := c.Resolve(runtime.Traits{Name: "x" + s, Image: "x"})
		if err != nil || resolved == nil || resolved.Probes[core.Readiness].Handler.Exec.Command[0] != literally([]string{"x" + s})[0] {
			t.Errorf("%q: %+v, %v", s, resolved, err)
		}
	})
}
