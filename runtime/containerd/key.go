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

// String returns the ID that healthd uses: containerd's own in the namespace "default", and
// "NAMESPACE:ID" in others. It depends on the container alone, so it stays the same when
// another namespace gets a container of the same ID, and when healthd restarts. No namespace
// and no ID of containerd has a colon.
func (k key) String() string {
	if k.namespace == defaultNamespace {
		return k.id
	}
	return k.namespace + ":" + k.id
}

// parseKey is the inverse of String.
func parseKey(id string) key {
	if namespace, rest, ok := strings.Cut(id, ":"); ok {
		return key{namespace, rest}
	}
	return key{defaultNamespace, id}
}

// key returns the container that healthd's ID stands for. One in a namespace that is not
// configured is none of healthd's.
func (e *Engine) key(id string) (key, error) {
	k := parseKey(id)
	if k.id == "" || !slices.Contains(e.conf.Namespaces, k.namespace) {
		return k, fmt.Errorf("cannot find container %s in the namespaces %s: %w", id, strings.Join(e.conf.Namespaces, ", "), runtime.ErrNotFound)
	}
	return k, nil
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
