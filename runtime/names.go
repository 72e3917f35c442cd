package runtime

import "strings"

// EngineID returns the ID by which the engine itself knows the container. Where an engine's
// IDs are not unique on the host, what makes them so stands before a last colon.
func (c *Container) EngineID() string { return c.ID[strings.LastIndexByte(c.ID, ':')+1:] }

// QualifiedName returns RUNTIME:NAME or RUNTIME:NAMESPACE:NAME, which no container of
// another runtime or namespace has. A runtime gives a name to one container at a time.
func (c *Container) QualifiedName() string {
	if c.Namespace != "" {
		return c.Runtime + ":" + c.Namespace + ":" + c.Name
	}
	return c.Runtime + ":" + c.Name
}

// NamesAmong returns a name for each of all: its own, unless others of all from another runtime
// or namespace have the same, then its qualified name.
func NamesAmong(all []*Container) []string {
	first, several := map[string]*Container{}, map[string]bool{}
	for _, c := range all {
		if o := first[c.Name]; o != nil && o.QualifiedName() != c.QualifiedName() {
			several[c.Name] = true
		}
		first[c.Name] = c
	}
	names := make([]string, len(all))
	for i, c := range all {
		if names[i] = c.Name; several[c.Name] {
			names[i] = c.QualifiedName()
		}
	}
	return names
}
