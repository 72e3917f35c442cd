package main

import "healthd/supervisor/api"

// displayNames gives each container the name by which commands find it: where several
// runtimes or namespaces have one of a name, the qualified one. Statuses keep the plain name
// in JSON, beside the runtime.
func displayNames(all []api.Status) {
	first := map[string]api.Status{}
	several := map[string]bool{}
	for _, s := range all {
		if o, ok := first[s.Name]; ok && o.QualifiedName() != s.QualifiedName() {
			several[s.Name] = true
		}
		first[s.Name] = s
	}
	for i, s := range all {
		if several[s.Name] {
			all[i].Name = s.QualifiedName()
		}
	}
}
