package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"go.uber.org/zap"

	"healthd/configs"
	"healthd/configs/importer"
	"healthd/runtime"
	"healthd/supervisor/api"
	"healthd/supervisor/core"
)

// importDocker imports the containers of the configured engines: those that names mean, or all.
func (a *app) importDocker(ctx context.Context, names []string) (*importer.Document, error) {
	c, err := a.load()
	if err != nil {
		return nil, err
	}
	mine := *c
	mine.State.Dir = "" // which a daemon may have locked
	engines, err := openEngines(&mine, zap.NewNop())
	if err != nil {
		return nil, err
	}
	defer closeEngines(engines)
	found := listAll(ctx, engines, func(engine string, all []runtime.Summary) []api.Bystander {
		var listed []api.Bystander
		for _, s := range all {
			listed = append(listed, newBystander(engine, s, nil))
		}
		return listed
	})
	if len(found.Away) > 0 {
		return nil, fmt.Errorf("cannot import the containers of %s", line(strings.Join(found.Away, "; ")))
	}
	all, err := inspectAll(ctx, engines, found.Containers, c)
	if err != nil {
		return nil, err
	}
	wanted, err := choose(found, all, names)
	if err != nil {
		return nil, err
	}
	doc, err := importer.Docker(all, wanted)
	return doc, cannotImport(err)
}

// inspectAll asks about all containers, some at a time. One that is gone meanwhile is left out.
func inspectAll(ctx context.Context, engines []*engine, listed []api.Bystander, c *configs.Config) ([]importer.Container, error) {
	const atOnce = 8
	found := make([]importer.Container, len(listed))
	failed := make([]error, len(listed))
	slots := make(chan struct{}, atOnce)
	var asking sync.WaitGroup
	for i := range listed {
		asking.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			found[i], failed[i] = inspectOne(ctx, engines, &listed[i], c)
		})
	}
	asking.Wait()
	kept := found[:0]
	for i := range found {
		switch {
		case failed[i] == nil:
			kept = append(kept, found[i])
		case !errors.Is(failed[i], runtime.ErrNotFound):
			return nil, failed[i]
		}
	}
	return kept, nil
}

func inspectOne(ctx context.Context, engines []*engine, b *api.Bystander, c *configs.Config) (importer.Container, error) {
	ctx, cancel := context.WithTimeout(ctx, importPatience)
	defer cancel()
	none := importer.Container{}
	i := slices.IndexFunc(engines, func(e *engine) bool { return e.name == b.Runtime })
	container, err := engines[i].client.Inspect(ctx, b.ID)
	if err != nil {
		return none, fmt.Errorf("cannot import %s: %w", line(b.Name), err)
	}
	made, err := engines[i].client.Creation(ctx, b.ID)
	if err != nil {
		return none, fmt.Errorf("cannot import %s: %w", line(b.Name), err)
	}
	by := ""
	if spec, wrong := c.Resolve(container.Traits()); wrong != nil {
		by = "its labels are wrong, " + wrong.Error()
	} else if spec != nil && spec.Name != "" {
		by = spec.Name + ", by " + spec.MatchedBy
	} else if spec != nil {
		by = "its own labels"
	}
	return importer.Container{Container: container, Creation: made, ConfiguredBy: by}, nil
}

// choose returns the containers that names mean: containers, Compose services and projects. Without names it
// returns nil.
func choose(listed api.Unsupervised, all []importer.Container, names []string) ([]importer.Container, error) {
	var wanted []importer.Container
	for _, name := range names {
		members := membersNamed(all, name)
		if b, _ := findBystander(listed.Containers, name); b != nil {
			members = slices.DeleteFunc(slices.Clone(all), func(c importer.Container) bool { return c.ID != b.ID || c.Runtime != b.Runtime })
		}
		if len(members) == 0 {
			if _, err := pick("import", listed, name, func() []string { return nil }); err != nil {
				return nil, err
			}
			return nil, fmt.Errorf("cannot import %s: it was removed just now", line(name))
		}
		wanted = append(wanted, members...)
	}
	return wanted, nil
}

// membersNamed returns the containers of a Compose service or project.
func membersNamed(all []importer.Container, name string) []importer.Container {
	var members []importer.Container
	for _, c := range all {
		if core.ServiceOf(c.Labels) == name || core.ProjectOf(c.Labels) == name {
			members = append(members, c)
		}
	}
	return members
}
