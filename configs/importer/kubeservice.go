package importer

import (
	"cmp"
	"fmt"
	"strings"
)

// selects says whether a selector chooses the Pods of a workload of the same namespace.
func selects(of value, selector map[string]string, w workload) bool {
	if len(selector) == 0 || namespace(of) != namespace(w.object) {
		return false
	}
	labels := w.meta.get("labels").table()
	for key, want := range selector {
		if is, ok := labels[key]; !ok || is != want {
			return false
		}
	}
	return true
}

func namespace(object value) string {
	return cmp.Or(object.get("metadata", "namespace").text(), "default")
}

// endpoint is a port of a Service that leads to a container.
type endpoint struct {
	service value
	port    int
}

// publish names the Service and the port that lead to the container.
func (k *kubernetes) publish(c *podContainer, w workload, ofPod int) {
	var found []endpoint
	for _, s := range k.services {
		if !selects(s, s.get("spec", "selector").table(), w) {
			continue
		}
		for _, p := range s.get("spec", "ports").items() {
			if n, ok := c.target(p, ofPod); ok {
				found = append(found, endpoint{s, n})
			}
		}
	}
	if len(found) == 0 {
		return
	}
	t := c.spec.table("publish")
	first := found[0]
	same := true
	for _, e := range found {
		same = same && e.service == first.service && e.port == first.port
	}
	if !same {
		var all []string
		for _, e := range found {
			all = append(all, fmt.Sprintf("%s port %d", e.service.get("metadata", "name").text(), e.port))
		}
		t.lost("Services (%s): several lead here, and healthd publishes one service with one port: %s. Write [spec.publish] service and port.", first.service.at(), strings.Join(all, ", "))
		return
	}
	t.text("service", first.service.get("metadata", "name").text())
	t.number("port", first.port)
	if v := first.service.get("spec", "publishNotReadyAddresses"); strings.EqualFold(v.text(), "true") {
		t.lost("publishNotReadyAddresses (%s): healthd tells load balancers of ready containers only", v.at())
	}
	if ofPod > 1 {
		t.remark("Here this container alone decides whether it is ready; in Kubernetes all containers of the Pod do.")
	}
}

// target returns the port of the container that a port of a Service leads to.
func (c *podContainer) target(p value, ofPod int) (int, bool) {
	to := p.get("targetPort")
	if !to.there() {
		to = p.get("port")
	}
	n, isNumber := to.integer()
	for _, own := range c.ports {
		number, ok := own.get("containerPort").integer()
		if ok && (isNumber && number == n || !isNumber && own.get("name").text() == to.text()) {
			return number, true
		}
	}
	return n, isNumber && ofPod == 1
}

// group writes how many Pods may be down at once.
func (k *kubernetes) group(spec *draft, w workload) {
	for _, b := range k.budgets {
		if b.get("spec", "selector", "matchExpressions").there() {
			spec.own.lost("PodDisruptionBudget %s (%s): matchExpressions of its selector; write [spec.group] max_unavailable", b.get("metadata", "name").text(), b.at())
			continue
		}
		if selects(b, b.get("spec", "selector", "matchLabels").table(), w) {
			k.budget(spec, b, w)
			return
		}
	}
	for _, key := range []string{"strategy", "updateStrategy"} {
		if v := w.object.get("spec", key, "rollingUpdate", "maxUnavailable"); v.there() {
			spec.share(v, "of rolling updates; here of restarts after failed probes")
			return
		}
	}
}

// budget carries over a PodDisruptionBudget.
func (k *kubernetes) budget(spec *draft, b value, w workload) {
	name := "PodDisruptionBudget " + b.get("metadata", "name").text()
	if v := b.get("spec", "maxUnavailable"); v.there() {
		spec.share(v, "of "+name+"; here of restarts after failed probes")
		return
	}
	v := b.get("spec", "minAvailable")
	least, ok := v.integer()
	replicas, known := w.object.get("spec", "replicas").integer()
	if !ok || !known || replicas <= least {
		spec.own.lost("%s, minAvailable = %s (%s): healthd has max_unavailable instead, of how many containers is not known here; by default it restarts one after the other", name, v.text(), v.at())
		return
	}
	spec.table("group").number("max_unavailable", replicas-least).because("%d replicas, minAvailable %d of %s", replicas, least, name)
}

// share writes a number of members or a percentage.
func (d *draft) share(v value, why string) {
	t := d.table("group")
	l := &line{}
	if n, ok := v.integer(); ok {
		l = t.number("max_unavailable", n)
	} else {
		l = t.text("max_unavailable", v.text())
	}
	l.because("%s", why)
}
