package containerd

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/containerd/containerd/v2/pkg/namespaces"

	"healthd/runtime"
)

// key is one container of containerd: IDs are unique in a namespace only.
type key struct{ namespace, id string }

// String returns containerd's own ID in the namespace "default", and
// "NAMESPACE:ID" in others. It depends on the container alone, so it stays the same when
// another namespace gets a container of the same ID, and when healthd restarts. No namespace
// and no ID of containerd has a colon.
func (k key) String() string {
	if k.namespace == defaultNamespace {
		return k.id
	}
	return k.namespace + ":" + k.id
}

// shownNamespace returns the namespace as runtime.Container has it.
func shownNamespace(namespace string) string {
	if namespace == defaultNamespace {
		return ""
	}
	return namespace
}

// parseKey is the inverse of String.
func parseKey(id string) key {
	if namespace, rest, ok := strings.Cut(id, ":"); ok {
		return key{namespace, rest}
	}
	return key{defaultNamespace, id}
}

// id returns the ID that healthd uses. In the first containerd of a host it is that of
// key.String; in a further one it is RUNTIME:NAMESPACE:ID, because people choose these IDs.
func (e *Engine) id(k key) string {
	if e.conf.Name == defaultName {
		return k.String()
	}
	return e.conf.Name + ":" + k.namespace + ":" + k.id
}

// key is the inverse of id. A container in a namespace that is not configured is none of
// healthd's.
func (e *Engine) key(id string) (key, error) {
	rest, ok := id, true
	if e.conf.Name != defaultName {
		rest, ok = strings.CutPrefix(id, e.conf.Name+":")
	}
	k := parseKey(rest)
	if !ok || k.id == "" || !slices.Contains(e.conf.Namespaces, k.namespace) {
		return k, fmt.Errorf("cannot find container %s in the namespaces %s: %w", id, strings.Join(e.conf.Namespaces, ", "), runtime.ErrNotFound)
	}
	return k, nil
}

// IDs returns by which IDs healthd may know a container whose processes see that ID of containerd.
func (e *Engine) IDs(own string) (all []string) {
	for _, namespace := range e.conf.Namespaces {
		all = append(all, e.id(key{namespace, own}))
	}
	return all
}

// in returns a context for calls about the namespace.
func in(ctx context.Context, namespace string) context.Context {
	return namespaces.WithNamespace(ctx, namespace)
}

// fileName returns name with all but letters, digits, dashes and dots replaced.
func fileName(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '.' {
			return r
		}
		return '_'
	}, name)
}
