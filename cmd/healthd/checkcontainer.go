package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"go.uber.org/zap"

	"healthd/configs"
	"healthd/configs/importer"
	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor/api"
	"healthd/supervisor/core"
)

// checkContainer explains what the configuration makes of a container, whether a daemon runs or not. It is an
// error when the container's labels are wrong.
func (a *app) checkContainer(ctx context.Context, c *configs.Config, name string) error {
	mine := *c
	mine.State.Dir = "" // which a daemon may have locked
	engines, err := openEngines(&mine, zap.NewNop())
	if err != nil {
		return err
	}
	defer closeEngines(engines)
	standIn(newStandpoint(), engines, func() {})
	found := listAll(ctx, engines, func(engine string, all []runtime.Summary) []api.Bystander {
		var listed []api.Bystander
		for _, s := range all {
			listed = append(listed, newBystander(engine, s, nil))
		}
		return listed
	})
	b, err := pick("check", found, name, func() []string { return nil })
	if err != nil {
		return err
	}
	container, err := inspect(ctx, engines, b)
	if err != nil {
		return err
	}
	spec, wrong := c.Resolve(container.Traits())
	if spec == nil && wrong == nil {
		b.Image, b.Why = container.Image, c.WhyNot(container.Traits())
		return a.explainBystander(b, nil)
	}
	e := api.ExplainSpec(viewOf(container, spec, wrong))
	e.Notes = append(e.Notes, doubtsOf(ctx, engines, b)...)
	if err := writeSpecification(a.stdout, e, a.columns()); err != nil || wrong == nil {
		return err
	}
	return fmt.Errorf("cannot supervise %s: wrong labels", line(container.Name))
}

// inspect asks the engine that has listed a container for all about it.
func inspect(ctx context.Context, engines []*engine, b *api.Bystander) (*runtime.Container, error) {
	const patience = 10 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	i := slices.IndexFunc(engines, func(e *engine) bool { return e.name == b.Runtime })
	container, err := engines[i].source.Inspect(ctx, b.ID)
	switch {
	case errors.Is(err, runtime.ErrNotFound):
		return nil, fmt.Errorf("cannot check %s: it was removed just now", line(b.Name))
	case err != nil:
		return nil, fmt.Errorf("cannot check %s: %w", line(b.Name), err)
	}
	return container, nil
}

// doubtsOf says why the container's HEALTHCHECK may not tell how it is. What cannot be asked is left out.
func doubtsOf(ctx context.Context, engines []*engine, b *api.Bystander) []string {
	const patience = 10 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	i := slices.IndexFunc(engines, func(e *engine) bool { return e.name == b.Runtime })
	made, err := engines[i].client.Creation(ctx, b.ID)
	if err != nil {
		return nil
	}
	return importer.Doubts(made.Healthcheck)
}

// viewOf is a container as a daemon sees it at first.
func viewOf(c *runtime.Container, spec *core.Spec, wrong error) *core.View {
	v := &core.View{
		Container: c, Spec: spec, Invalid: textOf(wrong), Identity: core.IdentityOf(c), Group: core.GroupOf(c), State: core.InvalidState(c, false),
	}
	if spec != nil {
		v.Container = c.InNetwork(spec.Network)
		v.Service, v.Group = spec.Publish.Service, cmp.Or(spec.Group.Name, v.Group)
	}
	if os.Geteuid() == 0 { // as the daemon runs; what others cannot enter, it may
		v.CannotEnter = textOf(prober.CanEnterNamespaces())
	}
	return v
}
