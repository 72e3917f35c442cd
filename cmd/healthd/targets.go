package main

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"healthd/supervisor/api"
)

// named returns the containers that a word stands for: one of that name or ID, else those of the
// service of that name, else those of the Compose project. The error is of the container, if none
// of these is known.
func (c *client) named(ctx context.Context, word string) ([]api.Status, error) {
	var one api.Status
	notFound := c.get(ctx, containerPath(word), nil, &one)
	if notFound == nil {
		return []api.Status{one}, nil
	}
	if !isRefusal(notFound, http.StatusNotFound) {
		return nil, notFound
	}
	var service api.Service
	err := c.get(ctx, "/v1/services/"+word, nil, &service)
	if err != nil && !isRefusal(err, http.StatusNotFound) {
		return nil, err // several services have that name
	}
	var all []api.Status
	if err := c.get(ctx, "/v1/containers", nil, &all); err != nil {
		return nil, err
	}
	other := func(s api.Status) bool { return s.Project != word }
	if err == nil {
		other = func(s api.Status) bool { return s.Service != service.Name }
	}
	if all = slices.DeleteFunc(all, other); len(all) == 0 {
		return nil, notFound
	}
	return all, nil
}

// isRefusal says whether err is an answer of the daemon with that status.
func isRefusal(err error, status int) bool {
	refused, ok := errors.AsType[*responseError](err)
	return ok && refused.status == status
}

// targets are the containers of these words, or all, each once. failed has an error for each word that
// stands for none; err is one of the daemon.
func (c *client) targets(ctx context.Context, doWhat string, words []string) (all []api.Status, failed []error, err error) {
	if len(words) == 0 {
		err = c.get(ctx, "/v1/containers", nil, &all)
		return all, nil, err
	}
	all = []api.Status{}
	seen := map[string]bool{}
	for _, word := range words {
		found, err := c.named(ctx, word)
		if _, refused := errors.AsType[*responseError](err); err != nil && !refused {
			return nil, nil, err
		}
		if err != nil {
			failed = append(failed, c.requestError(ctx, doWhat, word, err))
		}
		for _, s := range found {
			if key := s.Runtime + " " + s.ID; !seen[key] {
				seen[key] = true
				all = append(all, s)
			}
		}
	}
	return all, failed, nil
}
