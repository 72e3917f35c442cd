package docs

import (
	"healthd/e2e/patience"

	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/loader"
	composetypes "github.com/compose-spec/compose-go/v2/types"
	"github.com/docker/docker/api/types/container"

	"healthd/runtime/docker/dockertest"
)

// composeProject does for a Compose file what `docker compose up -d` does, as far as healthd sees
// it: Debian 12 has no Compose.
type composeProject struct {
	t      *testing.T
	engine *dockertest.Engine
	// standIns are commands for images that no test has, by image: they run in the test image.
	standIns map[string][]string

	made    bool              // its network
	running map[string]string // container name → what it was made of
}

// up makes the containers that are not there, and makes those anew that the file has changed, in the
// order of depends_on.
func (p *composeProject) up(file string) {
	p.t.Helper()
	project := p.load(file)
	network := project.Name + "_default"
	if !p.made {
		p.engine.Network(p.t, network)
		p.made, p.running = true, map[string]string{}
	}
	done := map[string]bool{}
	for len(done) < len(project.Services) {
		name := nextService(project, done)
		if name == "" {
			p.t.Fatalf("%s: depends_on has a circle", file)
		}
		service := project.Services[name]
		for i := range service.GetScale() {
			p.upContainer(network, composeService{service, project.Name, endIsAwaited(project, name)}, i+1)
		}
		done[name] = true
	}
}

func (p *composeProject) load(file string) *composetypes.Project {
	p.t.Helper()
	project, err := loader.LoadWithContext(p.t.Context(), composetypes.ConfigDetails{
		WorkingDir:  "/",
		ConfigFiles: []composetypes.ConfigFile{{Filename: file}},
		Environment: composetypes.Mapping{},
	})
	if err != nil {
		p.t.Fatalf("cannot read %s: %v", file, err)
	}
	return project
}

// composeService is a service of a project.
type composeService struct {
	composetypes.ServiceConfig
	project   string
	waitedFor bool // others start when its containers have ended
}

func endIsAwaited(project *composetypes.Project, service string) bool {
	for _, other := range project.Services {
		if other.DependsOn[service].Condition == composetypes.ServiceConditionCompletedSuccessfully {
			return true
		}
	}
	return false
}

// nextService is the first service by name that waits for no other one.
func nextService(project *composetypes.Project, done map[string]bool) string {
	for _, name := range slices.Sorted(maps.Keys(project.Services)) {
		waits := slices.ContainsFunc(project.Services[name].GetDependencies(), func(d string) bool { return !done[d] })
		if !done[name] && !waits {
			return name
		}
	}
	return ""
}

// upContainer replaces a container as Compose does: it makes the new one under another name, stops
// and removes the old one, and renames and starts the new one.
func (p *composeProject) upContainer(network string, s composeService, number int) {
	p.t.Helper()
	name := cmp.Or(s.ContainerName, fmt.Sprintf("%s-%s-%d", s.project, s.Name, number))
	what, err := json.Marshal(s.ServiceConfig)
	if err != nil {
		p.t.Fatal(err)
	}
	before, replaced := p.running[name]
	if before == string(what) {
		return
	}
	o := dockertest.RunOptions{Name: name, Image: s.Image, Cmd: s.Command, Network: network, Labels: s.labels(number)}
	if standIn := p.standIns[s.Image]; standIn != nil {
		o.Cmd = standIn
	}
	o.RestartPolicy, o.Env, o.Health = s.Restart, s.environment(), s.healthcheck()
	if s.StopGracePeriod != nil {
		seconds := int(time.Duration(*s.StopGracePeriod).Seconds())
		o.StopTimeout = &seconds
	}
	if replaced {
		o.Name = "new_" + name
	}
	id := p.engine.Create(p.t, o)
	if replaced {
		p.engine.StopByOperator(p.t, name)
		p.engine.Remove(p.t, name)
		p.engine.Rename(p.t, id, name)
	}
	p.engine.StartByOperator(p.t, id)
	p.running[name] = string(what)
	if s.waitedFor {
		p.waitForEnd(id)
	}
}

func (s composeService) labels(number int) map[string]string {
	labels := map[string]string{
		"com.docker.compose.project":          s.project,
		"com.docker.compose.service":          s.Name,
		"com.docker.compose.container-number": strconv.Itoa(number),
		"com.docker.compose.oneoff":           "False",
	}
	maps.Copy(labels, s.Labels)
	return labels
}

// environment returns the variables of the service itself.
func (s composeService) environment() []string {
	var all []string
	for name, value := range s.Environment {
		if value != nil {
			all = append(all, name+"="+*value)
		}
	}
	return all
}

func (s composeService) healthcheck() *container.HealthConfig {
	h := s.HealthCheck
	if h == nil {
		return nil
	}
	made := &container.HealthConfig{Test: h.Test}
	for _, d := range []struct {
		from *composetypes.Duration
		to   *time.Duration
	}{{h.Interval, &made.Interval}, {h.Timeout, &made.Timeout}, {h.StartPeriod, &made.StartPeriod}} {
		if d.from != nil {
			*d.to = time.Duration(*d.from)
		}
	}
	if h.Retries != nil {
		made.Retries = int(*h.Retries)
	}
	return made
}

// waitForEnd waits until a container has ended, as service_completed_successfully does.
func (p *composeProject) waitForEnd(id string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), patience.Limit)
	defer cancel()
	ended, failed := p.engine.Client().ContainerWait(ctx, id, "not-running")
	select {
	case <-ended:
	case err := <-failed:
		p.t.Fatalf("a container did not end: %v", err)
	}
}
