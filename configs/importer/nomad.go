package importer

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"healthd/supervisor/core"
)

// Nomad's own reader of jobs brings most of Nomad with it, so nomadhcl.go and nomadjson.go read what
// matters here into blocks.

// Nomad imports jobs, in HCL or in the JSON of Nomad's API: one spec for each task that runs a container.
func Nomad(files []File) (*Document, error) {
	n := &nomad{document: newDocument("Nomad jobs")}
	var failed []error
	var jobs []*block
	for _, f := range files {
		read := readHCL
		if data := bytes.TrimSpace(f.Data); len(data) > 0 && data[0] == '{' {
			read = readNomadJSON
		}
		found, err := read(f)
		if err == nil && len(found) == 0 {
			err = fmt.Errorf("%s: has no job", f.Name)
		}
		failed, jobs = append(failed, err), append(jobs, found...)
	}
	if err := errors.Join(failed...); err != nil {
		return nil, err
	}
	n.head.remark("healthd chooses containers by their labels and names on this host. Each spec is for the Compose service of its name, for another container set match_name. Leave to Nomad what Nomad still runs.")
	for _, job := range jobs {
		if err := n.job(job); err != nil {
			return nil, err
		}
	}
	return n.finish()
}

type nomad struct{ *document }

// nomadTask is a task with what it is in.
type nomadTask struct {
	job, group, task *block
	kind             string // of the job: service, batch, system or sysbatch
	spec             *draft
	told             map[string]bool // of ports: publish and each probe ask for the same ones
}

// once is lost, for what other tables of the task may have told already.
func (t *nomadTask) once(to *table, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if t.told[text] {
		return
	}
	if t.told == nil {
		t.told = map[string]bool{}
	}
	t.told[text] = true
	to.lost("%s", text)
}

func (n *nomad) job(job *block) error {
	kind, ok := job.text(&n.head, "type")
	if !ok && !job.has("type") {
		kind = "service"
	}
	n.lostOfJob(job)
	for _, group := range job.all("group") {
		tasks, err := n.tasks(job, group, kind)
		if err != nil {
			return err
		}
		n.services(group, tasks)
		for i, t := range tasks {
			t.exits()
			t.ends()
			t.members(i == 0)
			n.unexpanded(t.spec.own, t.task)
		}
		n.unexpanded(&n.head, group)
	}
	n.unexpanded(&n.head, job)
	return nil
}

// lostOfJob says what of a job and its groups healthd has no notion of.
func (n *nomad) lostOfJob(job *block) {
	if len(job.assumed) > 0 {
		n.head.remark("Job %s has the defaults of its variables here: %s. If you run it with others (-var, -var-file), change what follows from them.", job.label, strings.Join(job.assumed, ", "))
	}
	for _, in := range append([]*block{job}, job.all("group")...) {
		for _, loss := range []struct{ kind, why string }{
			{"periodic", "healthd schedules nothing: a systemd timer can"},
			{"parameterized", "healthd starts no jobs"},
			{"reschedule", "healthd knows no other host"},
		} {
			for _, b := range in.all(loss.kind) {
				n.head.lost("%s of %s (%s): %s", loss.kind, in.label, b.at, loss.why)
			}
		}
	}
}

// unexpanded tells of blocks that only Nomad can make.
func (n *nomad) unexpanded(t *table, b *block) {
	for _, d := range b.all("dynamic") {
		t.lost("dynamic %s (%s): only Nomad makes these blocks: write them out", d.label, d.at)
	}
}

// tasks begins a spec for each task of a group that runs a container all the time.
func (n *nomad) tasks(job, group *block, kind string) ([]*nomadTask, error) {
	var tasks []*nomadTask
	all := group.all("task")
	for _, task := range all {
		name := group.label
		if len(all) > 1 {
			name += "-" + task.label
		}
		if why := n.noContainer(task); why != "" {
			n.head.lost("task %s of %s (%s): %s", task.label, group.label, task.at, why)
			continue
		}
		if n.names[specName(name)] > 0 {
			name = job.label + "-" + name
		}
		spec, err := n.add(name)
		if err != nil {
			return nil, err
		}
		i := inline{}
		i.set(quote(core.ComposeService), quote(spec.name))
		spec.own.set("match", i.String()).because("from job %s, group %s, task %s (%s)", job.label, group.label, task.label, task.at)
		tasks = append(tasks, &nomadTask{job: job, group: group, task: task, kind: kind, spec: spec})
	}
	return tasks, nil
}

// noContainer says why a task is nothing for healthd.
func (n *nomad) noContainer(task *block) string {
	driver, _ := task.text(&n.head, "driver")
	if !slices.Contains([]string{"docker", "podman", "containerd-driver", "containerd"}, driver) {
		return "its driver is " + strconv.Quote(driver) + ": healthd looks after containers only"
	}
	if hook := n.runsOnce(task); hook != "" {
		return "it runs once, at " + hook + ": healthd starts nothing in order; Compose has depends_on"
	}
	return ""
}

// runsOnce returns the hook at which a task runs and ends; empty: it runs all the time.
func (n *nomad) runsOnce(task *block) string {
	l := task.first("lifecycle")
	hook, _ := l.text(&n.head, "hook")
	if hook == "poststop" || hook != "" && !l.boolean(&n.head, "sidecar") {
		return hook
	}
	return ""
}

// members carries over how many may be down at once.
func (t *nomadTask) members(first bool) {
	u := t.group.first("update").over(t.job.first("update"))
	if n, ok := u.number(t.spec.own, "max_parallel"); ok && n > 0 {
		t.spec.table("group").number("max_unavailable", n).because("update.max_parallel; here for restarts after failed probes")
	}
	if count, ok := t.group.number(t.spec.own, "count"); ok && count != 1 && first {
		t.spec.own.remark("count = %d: healthd makes no containers; Compose has deploy.replicas.", count)
	}
}

// services carries over the services of a group and of its tasks, with their checks.
func (n *nomad) services(group *block, tasks []*nomadTask) {
	for _, s := range group.all("service") {
		if t := n.taskOf(s, group, tasks); t != nil {
			t.service(s)
			n.unexpanded(t.spec.own, s)
		}
	}
	for _, t := range tasks {
		for _, s := range t.task.all("service") {
			t.service(s)
			n.unexpanded(t.spec.own, s)
		}
	}
}

// taskOf returns the task that a group's service is of: the only one that runs all the time, the one that it names, or
// whose container has its port.
func (n *nomad) taskOf(s, group *block, tasks []*nomadTask) *nomadTask {
	named, _ := s.text(&n.head, "task")
	label, _ := s.text(&n.head, "port")
	running := 0 // also what is no container
	for _, task := range group.all("task") {
		if n.runsOnce(task) == "" {
			running++
		}
	}
	for _, t := range tasks {
		if running == 1 && (named == "" || named == t.task.label) {
			return t
		}
		ports, _ := t.task.first("config").words(&n.head, "ports")
		if named == t.task.label || named == "" && label != "" && slices.Contains(ports, label) {
			return t
		}
	}
	n.head.lost("service of group %s (%s): which task it is of is not known: write its probes into the task's spec", group.label, s.at)
	return nil
}

// service publishes the task, and makes probes of the checks.
func (t *nomadTask) service(s *block) {
	own := t.spec.own
	for _, c := range s.all("connect") {
		own.lost("connect (%s): healthd is in no mesh: it asks the container's address, and load balancers are told of that; a sidecar is a container of its own", c.at)
	}
	publish := t.spec.table("publish")
	name, named := s.text(own, "name")
	if publish.has("service") || publish.has("port") {
		own.lost("service %s (%s): healthd publishes a container as one service, with one port", name, s.at)
	} else {
		if named {
			publish.text("service", name)
		}
		if s.has("port") {
			if p, ok := t.port(own, s, "port"); ok {
				publish.number("port", p)
			}
		}
	}
	for _, c := range s.all("check") {
		t.check(s, c)
	}
}

// port returns the port in the container that an attribute names: a number, or the label of a port of the group, which
// port_map may lead to another number.
func (t *nomadTask) port(to *table, b *block, key string) (int, bool) {
	label, ok := b.text(to, key)
	if !ok {
		return 0, false
	}
	if n, err := strconv.Atoi(label); err == nil {
		return n, true
	}
	for _, in := range []*block{t.group.first("network"), t.task.first("resources").first("network")} {
		for _, p := range in.all("port") {
			if p.label != label {
				continue
			}
			for _, mapped := range t.task.first("config").all("port_map") {
				if n, ok := mapped.number(to, label); ok && n > 0 {
					return n, true
				}
			}
			for _, is := range []string{"to", "static"} {
				if n, ok := p.number(to, is); ok && n > 0 {
					return n, true
				}
			}
			t.once(to, "%s port %s (%s): Nomad chooses it when the job runs: write the number that the container listens on", b.kind, label, p.at)
			return 0, false
		}
	}
	t.once(to, "%s port %s (%s): the group has no port of that label", b.kind, label, b.where(key))
	return 0, false
}

// checkName is how comments call a check.
func checkName(c *block) string {
	if a, ok := c.attrs["name"]; ok {
		if s, ok := a.value.(string); ok {
			return strings.TrimSpace("check " + s)
		}
	}
	return "check"
}
