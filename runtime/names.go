package runtime

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// maxName is the length of the longest name that is shown and kept, in bytes. Engines take longer ones.
const maxName = 253

// ClipName returns a name as healthd knows it. The end of one that is too long becomes a hash of the whole: names that
// begin alike stay different.
func ClipName(name string) string {
	if len(name) <= maxName {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	end := "-" + hex.EncodeToString(sum[:8])
	return strings.ToValidUTF8(name[:maxName-len(end)], "") + end
}

// EngineID returns the ID by which the engine itself knows the container. Where an engine's
// IDs are not unique on the host, what makes them so stands before a last colon.
func (c *Container) EngineID() string { return c.ID[strings.LastIndexByte(c.ID, ':')+1:] }

// QualifiedName returns RUNTIME:NAME or RUNTIME:NAMESPACE:NAME, which no container of
// another runtime or namespace has.
func (c *Container) QualifiedName() string {
	if c.Namespace != "" {
		return c.Runtime + ":" + c.Namespace + ":" + c.Name
	}
	return c.Runtime + ":" + c.Name
}

// IDPrefix stands before an ID where a name is expected. An ID alone may be another one's name.
const IDPrefix = "id:"

// Holder returns what has c's name, for comparisons: of containers with one holder, the newest has
// the name. Where names are labels each container is one of its own.
func (c *Container) Holder() string {
	if c.SharesName {
		return IDPrefix + c.ID
	}
	return c.QualifiedName()
}

// fullID is the length of an ID that engines make. Others are chosen by people, as names are.
const fullID = 64

// IsFullID says whether s has the form of an ID that engines make.
func IsFullID(s string) bool {
	return len(s) == fullID && strings.Trim(s, "0123456789abcdef") == ""
}

// NamedAsID says that the container's name is a full ID, and not its own: who says it means another one.
func (c *Container) NamedAsID() bool { return IsFullID(c.Name) && c.Name != c.EngineID() }

// NamesAmong returns a name for each of all: its own, unless others of all have the same or it is
// NamedAsID, then its qualified name. If others of its runtime and namespace have the same, it is id:ID.
func NamesAmong(all []*Container) []string {
	several := heldBySeveral(all, func(c *Container) string { return c.Name })
	var namesakes []*Container
	for _, c := range all {
		if several[c.Name] {
			namesakes = append(namesakes, c)
		}
	}
	inOnePlace := heldBySeveral(namesakes, (*Container).QualifiedName)
	names := make([]string, len(all))
	for i, c := range all {
		switch {
		case !several[c.Name] && !c.NamedAsID():
			names[i] = c.Name
		case !inOnePlace[c.QualifiedName()]:
			names[i] = c.QualifiedName()
		default:
			names[i] = IDPrefix + c.ID
		}
	}
	return names
}

// heldBySeveral returns the names that several containers have at once.
func heldBySeveral(all []*Container, name func(*Container) string) map[string]bool {
	first, several := map[string]*Container{}, map[string]bool{}
	for _, c := range all {
		n := name(c)
		if o := first[n]; o != nil && o.Holder() != c.Holder() {
			several[n] = true
		}
		first[n] = c
	}
	return several
}
