package docker

import (
	"maps"
	"sync"
)

// knownLabels are the labels of the containers that were inspected, by ID. A list brings those of all containers anew, once a
// minute: with ten thousand they were a tenth of healthd's memory, for a moment. No engine changes labels, but none is trusted
// not to.
type knownLabels struct {
	mu   sync.Mutex
	byID map[string]identified
}

// identified is what is kept once of a container.
type identified struct {
	id     string
	labels map[string]string
}

// keep keeps the labels of an inspection, and returns them.
func (k *knownLabels) keep(id string, labels map[string]string) map[string]string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.byID == nil {
		k.byID = map[string]identified{}
	}
	k.byID[id] = identified{id, labels}
	return labels
}

// share returns the ID and the labels that are kept already, if they are equal.
func (k *knownLabels) share(id string, labels map[string]string) (string, map[string]string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if known, ok := k.byID[id]; ok && maps.Equal(known.labels, labels) {
		return known.id, known.labels
	}
	return id, labels
}

// prune forgets the containers that are not in a list, once more are known than are in it. One that was inspected while the
// list was made may be among them: only its sharing is lost.
func (k *knownLabels) prune(all []listed) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.byID) <= len(all) {
		return
	}
	there := make(map[string]bool, len(all))
	for i := range all {
		there[all[i].ID] = true
	}
	maps.DeleteFunc(k.byID, func(id string, _ identified) bool { return !there[id] })
}
