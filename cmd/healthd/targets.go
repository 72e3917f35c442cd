package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"healthd/runtime"
	"healthd/supervisor/api"
)

// target is what a word on the command line stands for.
type target struct {
	word       string       // empty for all
	containers []api.Status // one, or those of a service or project
}

// isGroup says that the word is not one container's name or ID: it may stand for any number of them.
func (t target) isGroup() bool {
	if len(t.containers) != 1 || t.word == "" {
		return true
	}
	only := t.containers[0]
	c := runtime.Container{Runtime: only.Runtime, Namespace: only.Namespace, ID: only.ID, Name: only.Name}
	id := strings.TrimPrefix(t.word, runtime.IDPrefix)
	return t.word != c.Name && t.word != c.QualifiedName() && id != c.ID && !strings.HasPrefix(c.EngineID(), id)
}

// targets are what these words stand for, or all containers; the daemon decides. failed has an error for
// each word that stands for none, or for several services; err is one of the daemon.
func (c *client) targets(ctx context.Context, doWhat string, words []string) (found []target, failed []error, err error) {
	if len(words) == 0 {
		var every target
		err = c.get(ctx, "/v1/containers", nil, &every.containers)
		if doWhat != "show" { // nothing can be done with what the engine does not show
			every.containers = slices.DeleteFunc(every.containers, func(s api.Status) bool { return s.Unseen != "" })
		}
		return []target{every}, nil, err
	}
	for _, word := range words {
		t := target{word: word}
		err := c.get(ctx, "/v1/named/"+word, nil, &t.containers)
		if _, refused := errors.AsType[*responseError](err); err != nil && !refused {
			return nil, nil, err
		}
		if err != nil {
			failed = append(failed, c.targetError(ctx, doWhat, word, err))
			continue
		}
		found = append(found, t)
	}
	return found, failed, nil
}

// containersOf returns the containers of all targets, each once.
func containersOf(targets []target) []api.Status {
	all, seen := []api.Status{}, map[string]bool{}
	for _, t := range targets {
		for _, s := range t.containers {
			if !seen[s.ID] {
				seen[s.ID] = true
				all = append(all, s)
			}
		}
	}
	return all
}

// targetError suggests similar words for one that stands for nothing.
func (c *client) targetError(ctx context.Context, doWhat, word string, err error) error {
	if refused, ok := errors.AsType[*responseError](err); !ok || refused.status != http.StatusNotFound {
		return c.requestError(ctx, doWhat, word, err)
	}
	if left := c.leftAloneText(ctx, word); left != "" {
		return fmt.Errorf("cannot %s %s: %s", doWhat, word, left)
	}
	return fmt.Errorf("cannot %s %s: no supervised container has that name or ID, and no service or project%s", doWhat, word, didYouMean(word, c.words(ctx)))
}

// words returns the names of all containers, services and projects.
func (c *client) words(ctx context.Context) []string {
	var all []api.Status
	if c.get(ctx, "/v1/containers", nil, &all) != nil {
		return nil
	}
	var words []string
	for _, s := range all {
		words = append(words, s.Service, s.Project)
	}
	words = append(words, namesOf(all)...)
	slices.Sort(words)
	return slices.DeleteFunc(slices.Compact(words), func(w string) bool { return w == "" })
}

// completeWords completes the names of containers, services and projects.
func (a *app) completeWords(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	c, err := a.client()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	words := slices.DeleteFunc(c.words(cmd.Context()), func(w string) bool { return slices.Contains(args, w) })
	return words, cobra.ShellCompDirectiveNoFileComp
}
