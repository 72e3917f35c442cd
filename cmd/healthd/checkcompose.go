package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/compose-spec/compose-go/v2/types"
	"github.com/spf13/cobra"

	"healthd/configs"
	"healthd/runtime"
	"healthd/supervisor/api"
	"healthd/supervisor/core"
)

// checkCompose says of each service in Compose files what the configuration would make of its containers. It
// is an error when a service's labels are wrong, or a file is.
func (a *app) checkCompose(cmd *cobra.Command, files []string) error {
	c, err := a.load()
	if err != nil {
		return err
	}
	var failed []error
	invalid := 0
	for _, file := range files {
		project, err := a.loadCompose(cmd.Context(), file)
		if err != nil {
			failed = append(failed, fmt.Errorf("cannot read the Compose file %s: %s", line(file), line(err.Error())))
			continue
		}
		wrong, err := a.printProject(c, file, project)
		if err != nil {
			return err
		}
		invalid += wrong
	}
	if invalid > 0 {
		failed = append(failed, fmt.Errorf("cannot supervise %s: wrong labels", plural(invalid, "service")))
	}
	return errors.Join(failed...)
}

// printProject prints a line for each service, and how many have wrong labels.
func (a *app) printProject(c *configs.Config, file string, project *types.Project) (invalid int, err error) {
	if len(project.Services) == 0 {
		_, err := fmt.Fprintf(a.stdout, "%s: no services\n", line(file))
		return 0, err
	}
	names := project.ServiceNames()
	slices.Sort(names)
	for _, name := range names {
		service := project.Services[name]
		if service.Provider != nil { // which is no container
			continue
		}
		called, traits := line(project.Name+"/"+name), traitsOf(project.Name, service)
		text := ""
		switch spec, wrong := c.Resolve(traits); {
		case wrong != nil:
			invalid++
			fmt.Fprintf(a.stderr, "%s: %s is Invalid, healthd would not supervise it: %s\n", line(file), called, line(wrong.Error()))
			continue
		case spec == nil:
			text = "not supervised: " + line(statusOf(api.Bystander{Why: c.NearestWhyNot(traits)}, false).Unsupervised)
		default:
			text = "spec " + specText(api.Explanation{Status: api.Status{Spec: spec.Name}, MatchedBy: spec.MatchedBy})
		}
		if _, err := fmt.Fprintf(a.stdout, "%s: %s\n", called, text); err != nil {
			return invalid, err
		}
	}
	return invalid, nil
}

// traitsOf is what the first container of a service will be chosen by, as far as a file tells: an image may have
// labels, too.
func traitsOf(project string, service types.ServiceConfig) runtime.Traits {
	labels := map[string]string{}
	for key, value := range service.Labels {
		labels[key] = value
	}
	labels[core.ComposeProject], labels[core.ComposeService] = project, service.Name
	return runtime.Traits{
		Name: cmp.Or(service.ContainerName, project+"-"+service.Name+"-1"), Image: cmp.Or(service.Image, project+"-"+service.Name), Labels: labels,
	}
}
