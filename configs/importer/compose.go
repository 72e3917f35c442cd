package importer

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/compose-spec/compose-go/v2/types"

	"healthd/runtime"
)

// Compose imports Compose projects: one spec for each service that has a healthcheck, or that one of the programs
// that restart unhealthy containers looks after.
func Compose(projects []*types.Project) (*Document, error) {
	d := newDocument("Compose files")
	d.addDockerHead()
	var all []*healer
	for _, p := range projects {
		healers := healersIn(p)
		d.addHealers(healers)
		all = append(all, healers...)
		if err := d.addProject(p, healers); err != nil {
			return nil, err
		}
	}
	if err := d.addRest(all); err != nil {
		return nil, err
	}
	return d.finish()
}

// healersIn returns the programs that restart unhealthy containers.
func healersIn(p *types.Project) []*healer {
	var healers []*healer
	for _, name := range p.ServiceNames() {
		s := p.Services[name]
		if h := composeHealer(s); h != nil {
			if len(s.EnvFiles) > 0 {
				h.lost = append(h.lost, "env_file: the import does not read it; healthd import docker knows the variables of what runs")
			}
			healers = append(healers, h)
		}
	}
	return healers
}

func composeHealer(s types.ServiceConfig) *healer {
	env, hasSocket := map[string]string{}, false
	for key, value := range s.Environment {
		env[key] = ""
		if value != nil {
			env[key] = *value
		}
	}
	for _, v := range s.Volumes {
		hasSocket = hasSocket || runtime.IsEngineSocket(v.Source) || runtime.IsEngineSocket(v.Target)
	}
	return healerOf(s.Name, s.Image, env, hasSocket)
}

func (d *document) addProject(p *types.Project, healers []*healer) error {
	d.head.remark("Project %s. If you start it under another name (docker compose -p), change com.docker.compose.project.", p.Name)
	var silent []string
	names := p.ServiceNames()
	slices.Sort(names)
	for _, name := range names {
		config := p.Services[name]
		if config.Provider != nil || composeHealer(config) != nil || ImageName(config.Image) == "healthd" {
			continue
		}
		s := composeService(p.Name, config)
		switch {
		case s.check == nil && s.checkIsOf == "": // it is turned off
			continue
		case s.check == nil && !s.healedBy(healers).heals():
			silent = append(silent, name)
			continue
		}
		spec, err := d.addService(s, healers)
		if err != nil {
			return err
		}
		addDeploy(spec, config)
		addDependencies(spec.own, config)
		addHooks(spec, config)
	}
	if len(silent) > 0 {
		d.head.remark("Without a healthcheck in %s, so not here: %s. Their images may have one: healthd import docker sees it once they run. healthd can also ask them by itself.", p.Name, strings.Join(silent, ", "))
	}
	return nil
}

func composeService(project string, c types.ServiceConfig) *service {
	s := &service{project: project, name: c.Name, labels: map[string]string{}, stopTimeout: -1, checkIsOf: "image"}
	for key, value := range c.Labels {
		s.labels[key] = value
	}
	if h := c.HealthCheck; h != nil {
		s.check, s.checkIsOf = healthcheckOf(h)
	}
	s.restart, s.restartMax = composeRestart(c)
	if c.StopGracePeriod != nil {
		s.stopTimeout = time.Duration(*c.StopGracePeriod)
	}
	for _, prefix := range []string{types.NetworkModeServicePrefix, types.NetworkModeContainerPrefix} {
		if of, ok := strings.CutPrefix(c.NetworkMode, prefix); ok {
			s.networkOf = of
		}
	}
	for _, p := range c.Ports {
		if (p.Protocol == "" || p.Protocol == "tcp") && p.Target > 0 && p.Target <= 65535 {
			s.ports = append(s.ports, int(p.Target))
		}
	}
	for _, text := range c.Expose {
		number, protocol, _ := strings.Cut(text, "/")
		if n, err := strconv.Atoi(number); err == nil && n > 0 && n <= 65535 && (protocol == "" || protocol == "tcp") {
			s.ports = append(s.ports, n)
		}
	}
	return s
}

// healthcheckOf returns the check of a service. Without a test it changes the timing of the image's, which is not
// known here.
func healthcheckOf(h *types.HealthCheckConfig) (check *runtime.Healthcheck, isOf string) {
	if h.Disable || len(h.Test) > 0 && h.Test[0] == "NONE" {
		return nil, ""
	}
	c := &runtime.Healthcheck{Test: h.Test}
	for _, d := range []struct {
		from *types.Duration
		to   *time.Duration
	}{{h.Interval, &c.Interval}, {h.Timeout, &c.Timeout}, {h.StartPeriod, &c.StartPeriod}, {h.StartInterval, &c.StartInterval}} {
		if d.from != nil {
			*d.to = time.Duration(*d.from)
		}
	}
	if h.Retries != nil {
		c.Retries = int(min(*h.Retries, 1<<20))
	}
	return c, ""
}

// composeRestart returns Docker's restart policy as Compose sets it: by deploy.restart_policy where there is one, also
// beside restart.
func composeRestart(c types.ServiceConfig) (policy string, most int) {
	policy, max, _ := strings.Cut(c.Restart, ":")
	if n, err := strconv.Atoi(max); err == nil && n > 0 {
		most = n
	}
	if c.Deploy != nil && c.Deploy.RestartPolicy != nil {
		r := c.Deploy.RestartPolicy
		policy, most = r.Condition, 0
		if r.MaxAttempts != nil {
			most = int(min(*r.MaxAttempts, 1<<20))
		}
	}
	switch policy {
	case "any":
		return "always", 0
	case "always", "unless-stopped":
		return policy, 0
	case "on-failure":
		return policy, most
	}
	return "no", 0
}

// addDeploy carries over what deploy says of restarts and updates.
func addDeploy(spec *draft, c types.ServiceConfig) {
	if c.Deploy == nil {
		return
	}
	if r := c.Deploy.RestartPolicy; r != nil {
		if c.Restart != "" && r.Condition != c.Restart {
			spec.own.remark("deploy.restart_policy goes before restart = %s, as with Compose.", c.Restart)
		}
		if r.Condition == "" {
			spec.own.remark("deploy.restart_policy has no condition: for Compose that is no, for Swarm any.")
		}
		for _, d := range []struct {
			name string
			is   *types.Duration
		}{{"delay", r.Delay}, {"window", r.Window}} {
			if d.is != nil {
				spec.own.lost("deploy.restart_policy.%s: only Swarm heeds it; healthd's own wait between restarts is [spec.backoff]", d.name)
			}
		}
	}
	if u := c.Deploy.UpdateConfig; u != nil && u.Parallelism != nil {
		t := spec.table("group")
		if *u.Parallelism == 0 {
			t.text("max_unavailable", "100%").because("update_config.parallelism = 0: all at once")
		} else {
			t.number("max_unavailable", int(min(*u.Parallelism, 1<<20))).because("update_config.parallelism; here for restarts after failed probes")
		}
	}
}

// addDependencies says what becomes of depends_on.
func addDependencies(t *table, c types.ServiceConfig) {
	var healthy, restarted []string
	for name, on := range c.DependsOn {
		if on.Condition == types.ServiceConditionHealthy {
			healthy = append(healthy, name)
		}
		if on.Restart && c.NetworkMode != types.NetworkModeServicePrefix+name { // else healthd does that, too
			restarted = append(restarted, name)
		}
	}
	slices.Sort(healthy)
	slices.Sort(restarted)
	if len(healthy) > 0 {
		t.remark("depends_on %s, service_healthy: Compose goes on waiting for that. healthd orders no starts, so keep the healthcheck there.", strings.Join(healthy, ", "))
	}
	if len(restarted) > 0 {
		t.lost("depends_on %s, restart: Compose restarts this service when it restarts that one, but not when healthd does. healthd restarts only what shares the other's network.", strings.Join(restarted, ", "))
	}
}

// addHooks carries over pre_stop, which Compose runs before its own stops only.
func addHooks(spec *draft, c types.ServiceConfig) {
	for i, h := range c.PreStop {
		switch {
		case i > 0:
			spec.own.lost("pre_stop %d: healthd has one pre_stop hook: join the commands in one script", i+1)
		case h.User != "" || h.Privileged || h.WorkingDir != "" || len(h.Environment) > 0:
			spec.own.lost("pre_stop: healthd runs hooks as the container's own user, directory and environment: write [spec.lifecycle] pre_stop if that will do")
		default:
			spec.table("lifecycle").set("pre_stop", hookExec(literally(h.Command))).because("Compose runs it before its own stops, healthd before its")
		}
	}
	if len(c.PostStart) > 0 {
		spec.own.lost("post_start: Compose runs it when it starts the container, and healthd would run it then, too. Remove it there and write [spec.lifecycle] post_start, if it is needed after each start.")
	}
}

func hookExec(command []string) string {
	i := inline{}
	i.set("exec", execOf(command).String())
	return i.String()
}
