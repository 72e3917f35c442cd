package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"healthd/supervisor/api"
)

// namesOrAll checks that there are names, or --all in their place, and with --fleet that there are names.
func namesOrAll(all, fleet *bool) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		name, _, _ := strings.Cut(cmd.Use, " ")
		switch {
		case *fleet && *all:
			return usageError{fmt.Errorf("%s --fleet takes services, not --all", name)}
		case *fleet && len(args) == 0:
			return usageError{fmt.Errorf("%s --fleet takes services", name)}
		case (len(args) > 0) == *all:
			return usageError{fmt.Errorf("%s takes names, or --all", name)}
		}
		return nil
	}
}

// changeFleetHold requests a hold or its end on all hosts for the services of these names, and prints of which it came
// about. It goes on after one that is refused.
func (a *app) changeFleetHold(cmd *cobra.Command, what string, query url.Values, is string, words []string) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	ctx, cancel := interruptible(cmd)
	defer cancel()
	defer outliveReader()()
	v, err := c.fleet(ctx)
	if err != nil {
		return unlessCancelled(ctx, fmt.Errorf("cannot %s services of the fleet: %w", what, err))
	}
	services, failed, err := c.fleetTargets(ctx, v, what, words)
	if err != nil {
		return err
	}
	var unprinted error
	for _, service := range services {
		text := is
		err := c.post(ctx, "/v1/fleet/services/"+service+"/"+what, query, &api.FleetHeld{})
		switch refused, ok := errors.AsType[*responseError](err); {
		case ok && refused.status == http.StatusConflict:
			text = "was not held on all hosts: nothing changes"
		case ok:
			failed = append(failed, fmt.Errorf("cannot %s %s: %w", what, line(service), err))
			continue
		case err != nil: // nor would the rest succeed
			return errors.Join(append(failed, unlessCancelled(ctx, err))...)
		}
		if unprinted == nil {
			_, unprinted = fmt.Fprintf(a.stdout, "%s: %s\n", line(service), text)
		}
	}
	return errors.Join(append(failed, unprinted)...)
}

// fleetTargets returns the full names of the services that these words stand for, each once. failed has an error for
// each that stands for none, or for several; err says that one is a container's name.
func (c *client) fleetTargets(ctx context.Context, v *api.FleetView, what string, words []string) (services []string, failed []error, err error) {
	all := fleetServices(v)
	for _, word := range words {
		service, err := fleetService(all, word)
		switch {
		case err == nil && !slices.Contains(services, service):
			services = append(services, service)
		case err == nil:
		case !errors.Is(err, errNoFleetService):
			failed = append(failed, fmt.Errorf("cannot %s %s: %w", what, word, err))
		case c.isContainer(ctx, v, word):
			return nil, nil, usageError{fmt.Errorf("%s --fleet takes services, and %s is a container", what, word)}
		default:
			failed = append(failed, fmt.Errorf("cannot %s %s: %w%s", what, word, err, otherServices(all, word)))
		}
	}
	return services, failed, nil
}

// isContainer says whether a word is the name of a container here or on another host.
func (c *client) isContainer(ctx context.Context, v *api.FleetView, word string) bool {
	return slices.ContainsFunc(v.Members, func(m api.FleetMember) bool { return word == m.Container || word == m.Host+":"+m.Container }) ||
		c.get(ctx, containerPath(word), nil, &api.Status{}) == nil
}

// otherServices suggests services for a word that stands for none: those of the project of that name, or similar ones.
func otherServices(services []string, word string) string {
	var of []string
	for _, name := range services {
		if strings.HasPrefix(name, word+"/") {
			of = append(of, name)
		}
	}
	if len(of) > 0 {
		return "; the project has " + line(list(of))
	}
	return didYouMean(word, services)
}

// completeFleet completes the names of services of the fleet, and of its hosts if they are asked for, when *fleet is
// set, and else what otherwise does.
func (a *app) completeFleet(fleet *bool, hosts bool, otherwise cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		if !*fleet {
			return otherwise(cmd, args, toComplete)
		}
		c, err := a.client()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		v, err := c.fleet(cmd.Context())
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		names := fleetServices(v)
		if hosts {
			names = append(names, fleetHosts(v)...)
		}
		// A shell would take another name for one with a line break.
		names = slices.DeleteFunc(names, func(n string) bool { return slices.Contains(args, n) || n != line(n) })
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
