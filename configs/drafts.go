package configs

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"healthd/supervisor/core"
)

// draft is a spec but for what follows from the container's own name, which is the same for all containers of a
// [[spec]] whose labels for healthd are the same. They share what it points to.
type draft struct {
	spec     core.Spec
	named    bool // a setting names the service
	drainSet bool // a setting says how long its drain is
	problems Problems
}

// maxDrafts bounds how many drafts are kept: whoever may start containers can make any number of labels.
const maxDrafts = 1024

// maxDraftKey is how many bytes of labels a draft that is kept may be made of. Few have as many as a kilobyte. Whoever
// may start containers can write megabytes of wrong ones.
const maxDraftKey = 8 << 10

// drafts are those of a Config. Reading one takes a hundred times longer than finding it, and more memory than
// all else about a container.
type drafts struct {
	mu    sync.Mutex
	byKey map[draftKey]*draft
	texts map[string]string // of their settings: most are in many drafts
}

// draftKey is what a draft is made of.
type draftKey struct {
	chosen  *fileSpec // nil: labels only
	project string
	manager string // see managerOf
	labels  string // those for healthd
}

// of returns the draft, which read makes when it is new, and matchedBy, which many containers have in common.
func (d *drafts) of(chosen *fileSpec, labels map[string]string, matchedBy string, read func() *draft) (*draft, string) {
	manager, _ := managerOf(labels)
	key := draftKey{chosen, core.ProjectOf(labels), manager, ownLabels(labels)}
	d.mu.Lock()
	defer d.mu.Unlock()
	if known := d.byKey[key]; known != nil {
		return known, d.shared(matchedBy)
	}
	if len(key.labels) > maxDraftKey {
		return read(), matchedBy
	}
	if d.byKey == nil || len(d.byKey) >= maxDrafts {
		d.byKey, d.texts = map[draftKey]*draft{}, map[string]string{}
	}
	made := read()
	d.share(made.spec.Values)
	d.byKey[key] = made
	return made, d.shared(matchedBy)
}

// Retire lets go of what c keeps of the containers that it has resolved, once another configuration is in force. c can be used
// as before.
func (c *Config) Retire() {
	if d := c.drafts; d != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.byKey, d.texts = nil, nil
	}
}

// share keeps equal texts of settings once.
func (d *drafts) share(settings []core.Value) {
	for i := range settings {
		v := &settings[i]
		v.Path, v.Value, v.Origin = d.shared(v.Path), d.shared(v.Value), d.shared(v.Origin)
	}
}

func (d *drafts) shared(text string) string {
	known, ok := d.texts[text]
	if !ok {
		known = text
		d.texts[text] = text
	}
	return known
}

// ownLabels returns the labels for healthd as one text.
func ownLabels(labels map[string]string) string {
	if !hasLabel(labels) {
		return ""
	}
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if value := labels[key]; strings.HasPrefix(key, labelPrefix) {
			b.WriteString(strconv.Quote(key) + "=" + strconv.Quote(value) + " ")
		}
	}
	return b.String()
}
