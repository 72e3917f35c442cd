package importer

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"healthd/supervisor/core"
)

// The types of k8s.io/api would add 8 MB to the program and 3.5 MB to what it needs in memory at its start, also of
// the daemon, which never reads a manifest. So the few fields that matter are read from the YAML itself,
// which also tells the line of each, and of those that nobody knows.

// Kubernetes imports manifests: one spec for each container of a Pod, or of what makes Pods.
func Kubernetes(files []File) (*Document, error) {
	k := &kubernetes{document: newDocument("Kubernetes manifests")}
	var failed []error
	for _, f := range files {
		documents, err := readYAML(f)
		if err != nil {
			if strings.Contains(string(f.Data), "{{") {
				err = fmt.Errorf("%w (a template must be rendered first: helm template)", err)
			}
			failed = append(failed, err)
			continue
		}
		for _, object := range documents {
			failed = append(failed, k.object(object, true))
		}
	}
	if err := errors.Join(failed...); err != nil {
		return nil, err
	}
	if len(k.workloads) == 0 {
		return nil, fmt.Errorf("%s: has no Pod, Deployment, StatefulSet, DaemonSet, ReplicaSet, Job or CronJob", fileNames(files))
	}
	k.head.remark("healthd chooses containers by their labels and names on this host. Each spec is for the Compose service of its name, for another container set match_name.")
	if len(k.services) > maxDrafts || len(k.budgets) > maxDrafts {
		return nil, fmt.Errorf("there are more than %d Services or PodDisruptionBudgets: import them in parts", maxDrafts)
	}
	if len(k.others) > 0 {
		k.head.remark("Nothing here is about health: %s.", strings.Join(k.others, ", "))
	}
	for _, w := range k.workloads {
		if err := k.workload(w); err != nil {
			return nil, err
		}
	}
	return k.finish()
}

func fileNames(files []File) string {
	var names []string
	for _, f := range files {
		names = append(names, f.Name)
	}
	return strings.Join(names, ", ")
}

// maxName is the longest name that Kubernetes takes.
const maxName = 253

// kubernetes is an import of manifests.
type kubernetes struct {
	*document
	workloads []workload
	services  []value
	budgets   []value
	others    []string // objects that say nothing of health
}

// workload is a Pod, or what makes Pods.
type workload struct {
	kind   string
	name   string
	object value
	meta   value // the Pod's metadata
	pod    value // the Pod's spec
}

// object takes in one document, or the items of a list.
func (k *kubernetes) object(o value, lists bool) error {
	kind, name := o.get("kind").text(), o.get("metadata", "name").text()
	if !o.is(yaml.MappingNode) || kind == "" {
		return fmt.Errorf("%s: is no Kubernetes object: it has no kind", o.at())
	}
	w := workload{kind: kind, name: name, object: o}
	switch {
	case lists && strings.HasSuffix(kind, "List") && o.get("items").is(yaml.SequenceNode):
		var failed []error
		for _, item := range o.get("items").items() {
			failed = append(failed, k.object(item, false))
		}
		return errors.Join(failed...)
	case kind == "Service":
		k.services = append(k.services, o)
		return nil
	case kind == "PodDisruptionBudget":
		k.budgets = append(k.budgets, o)
		return nil
	case kind == "Pod":
		w.meta, w.pod = o.get("metadata"), o.get("spec")
	case slices.Contains([]string{"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController", "Job"}, kind):
		w.meta, w.pod = o.get("spec", "template", "metadata"), o.get("spec", "template", "spec")
	case kind == "CronJob":
		template := o.get("spec", "jobTemplate", "spec", "template")
		w.meta, w.pod = template.get("metadata"), template.get("spec")
	case o.get("spec", "template", "spec", "containers").is(yaml.SequenceNode):
		k.head.lost("%s %s (%s): healthd does not know this kind. If it makes Pods as a Deployment does, write kind: Deployment and import it again", kind, name, o.at())
		return nil
	default:
		k.others = append(k.others, strings.TrimSpace(kind+" "+name))
		return nil
	}
	if len(name) > maxName {
		return fmt.Errorf("%s: the name of the %s has more than %d characters", o.at(), kind, maxName)
	}
	if !w.pod.get("containers").is(yaml.SequenceNode) {
		return fmt.Errorf("%s: the %s %s has no containers", o.at(), kind, name)
	}
	if w.name == "" {
		w.name = strings.TrimSuffix(o.get("metadata", "generateName").text(), "-")
	}
	k.workloads = append(k.workloads, w)
	return nil
}

// workload adds a spec for each container that goes on running.
func (k *kubernetes) workload(w workload) error {
	containers := w.pod.get("containers").items()
	var before []value
	for _, c := range w.pod.get("initContainers").items() {
		if c.get("restartPolicy").text() == string(core.Always) {
			containers = append(containers, c)
		} else {
			before = append(before, c)
		}
	}
	for i, c := range containers {
		name := w.name
		if len(containers) > 1 || name == "" {
			name = strings.Trim(name+"-"+c.get("name").text(), "-")
		}
		spec, err := k.add(name)
		if err != nil {
			return err
		}
		k.match(spec.own, w, c)
		if i == 0 {
			lostOfPod(spec.own, w, before)
		}
		k.container(spec, w, c, len(containers))
	}
	return nil
}

// match says which containers the spec is for. Nobody knows how those of a manifest are called elsewhere.
func (k *kubernetes) match(t *table, w workload, c value) {
	i := inline{}
	i.set(quote(core.ComposeService), quote(t.lines[0].unquoted()))
	t.set("match", i.String()).because("from %s %s, container %s (%s)", w.kind, w.name, c.get("name").text(), c.at())
	pod := w.name
	switch w.kind {
	case "Deployment", "DaemonSet", "Job":
		pod += "-pod"
	case "Pod":
	default:
		return
	}
	t.remark("podman kube play calls the container: match_name = %s", quote(pod+"-"+c.get("name").text()))
}

// unquoted is the text of a value that quote has written and specName has made: it has nothing to unquote.
func (l line) unquoted() string { return strings.Trim(l.value, `"`) }

// lostOfPod says what of a Pod, or of what makes it, healthd has no notion of.
func lostOfPod(t *table, w workload, before []value) {
	for _, c := range before {
		t.lost("initContainers %s (%s): healthd starts nothing in order; Compose has depends_on: condition: service_completed_successfully", c.get("name").text(), c.at())
	}
	for _, loss := range []struct {
		at   value
		name string
		why  string
	}{
		{w.object.get("spec", "schedule"), "schedule", "healthd schedules nothing: a systemd timer can"},
		{w.object.get("spec", "minReadySeconds"), "minReadySeconds", "a container is ready as soon as its probes say so; success_threshold of readiness delays that"},
		{w.job().get("podFailurePolicy"), "podFailurePolicy", "healthd judges exit codes by restart_rules"},
		{w.job().get("activeDeadlineSeconds"), "activeDeadlineSeconds", "healthd ends nothing because of its age"},
		{w.pod.get("activeDeadlineSeconds"), "activeDeadlineSeconds", "healthd ends nothing because of its age"},
	} {
		if loss.at.there() && loss.at.text() != "0" {
			t.lost("%s = %s (%s): %s", loss.name, loss.at.text(), loss.at.at(), loss.why)
		}
	}
}

// job is the spec of a Job, also of one that a CronJob makes.
func (w workload) job() value {
	switch w.kind {
	case "Job":
		return w.object.get("spec")
	case "CronJob":
		return w.object.get("spec", "jobTemplate", "spec")
	}
	return value{}
}

// container writes the settings of one container.
func (k *kubernetes) container(spec *draft, w workload, c value, ofPod int) {
	own := spec.own
	policy := c.get("restartPolicy")
	if !policy.there() {
		policy = w.pod.get("restartPolicy")
	}
	switch {
	case policy.text() == string(core.OnFailure) && w.job().node != nil:
		backoffLimit(own, w)
	case policy.there():
		own.text("restart_policy", policy.text())
	default:
		own.text("restart_policy", string(core.Always))
	}
	if policy.text() == string(core.Never) && (w.kind == "Job" || w.kind == "CronJob") {
		own.lost("restartPolicy = Never of a %s (%s): Kubernetes makes a new Pod after a failure, up to backoffLimit; healthd makes no containers", w.kind, policy.at())
	}
	if grace := w.pod.get("terminationGracePeriodSeconds"); grace.there() {
		setGrace(own, grace)
	}
	k.gates(own, w, ofPod)
	pc := &podContainer{spec: spec, ports: c.get("ports").items()}
	for _, p := range []struct{ key, table string }{{"startupProbe", "startup"}, {"livenessProbe", "liveness"}, {"readinessProbe", "readiness"}} {
		if probe := c.get(p.key); probe.there() {
			pc.probe(p.key, p.table, probe)
		}
	}
	pc.lifecycle(c.get("lifecycle"))
	pc.rules(c.get("restartPolicyRules"))
	k.group(spec, w)
	k.publish(pc, w, ofPod)
}

// backoffLimit bounds how often a job is restarted, as Kubernetes does also where the manifest does not say so.
func backoffLimit(t *table, w workload) {
	const byDefault = 6
	within := 365 * 24 * time.Hour // for as long as healthd takes: a job may run for long before it fails
	if w.kind == "CronJob" {
		within = 24 * time.Hour // of each day, as healthd does not know of its Jobs
	}
	limit, why := byDefault, "backoffLimit by default"
	if v := w.job().get("backoffLimit"); v.there() {
		n, ok := v.integer()
		if !ok || n < 0 {
			t.lost("backoffLimit = %s (%s): it is no number of restarts; %d counts, the default", v.text(), v.at(), byDefault)
		} else {
			limit, why = n, "backoffLimit"
		}
	}
	if limit == 0 {
		t.text("restart_policy", string(core.Never)).because("OnFailure, but backoffLimit = 0")
		return
	}
	if limit > core.MaxGiveUp {
		t.lost("backoffLimit = %d: healthd counts up to %d restarts", limit, core.MaxGiveUp)
	}
	t.text("restart_policy", string(core.OnFailure))
	i := inline{}
	i.set("restarts", fmt.Sprint(min(limit, core.MaxGiveUp)))
	i.set("within", quote(showDuration(within)))
	t.set("give_up", i.String()).because("%s, here of each container", why)
}

func (k *kubernetes) gates(t *table, w workload, ofPod int) {
	var gates []string
	for _, g := range w.pod.get("readinessGates").items() {
		gates = append(gates, g.get("conditionType").text())
	}
	if len(gates) == 0 {
		return
	}
	t.set("readiness_gates", quoteAll(gates)).because("set with healthd gate NAME TYPE True")
	if ofPod > 1 {
		t.remark("A readiness gate is the Pod's there, here each container has its own.")
	}
}
