package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"

	"healthd/configs"
	"healthd/runtime"
	"healthd/supervisor/api"
	"healthd/supervisor/core"
)

// composePatience bounds the reading of one Compose file and of all that it names.
const composePatience = 30 * time.Second

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
		ctx, cancel := cmd.Context(), context.CancelFunc(func() {})
		if file != "-" { // whose writer may take its time
			ctx, cancel = context.WithTimeout(ctx, composePatience)
		}
		project, err := loadCompose(ctx, file, a.stderr)
		cancel()
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
			text = "not supervised: " + line(statusOf(api.Bystander{Why: c.WhyNot(traits)}, false).Unsupervised)
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

// loadCompose reads a file as docker compose -f does, with every profile, and - from stdin. It runs nothing and
// asks no network. The variables of containers are not needed, so neither are the files that have them. It gives up
// when ctx ends: a pipe that the file names would keep its reader for ever.
func loadCompose(ctx context.Context, file string, warn io.Writer) (*types.Project, error) {
	if info, err := os.Stat(file); err == nil && !info.Mode().IsRegular() { // a reader of a pipe would wait for ever
		return nil, errors.New("it is not a regular file")
	}
	defer redirectComposeLog(warn)()
	type loaded struct {
		project *types.Project
		err     error
	}
	done := make(chan loaded, 1)
	go func() {
		project, err := readCompose(ctx, file)
		done <- loaded{project, err}
	}()
	select {
	case l := <-done:
		return l.project, l.err
	case <-ctx.Done():
		return nil, errors.New("it takes too long: does it name a pipe?")
	}
}

func readCompose(ctx context.Context, file string) (*types.Project, error) {
	options, err := cli.NewProjectOptions([]string{file},
		cli.WithOsEnv, cli.WithEnvFiles(), cli.WithDotEnv, cli.WithProfiles([]string{"*"}), cli.WithoutEnvironmentResolution, cli.WithResourceLoader(noNetwork{}))
	if err != nil {
		return nil, err
	}
	return options.LoadProject(ctx)
}

// noNetwork refuses what a Compose file includes or extends from elsewhere. What is not known to be remote is a file.
type noNetwork struct{}

// Accept says whether a reference is one to the network.
func (noNetwork) Accept(ref string) bool {
	return strings.Contains(ref, "://") || strings.HasPrefix(ref, "git@")
}

// Load refuses the reference.
func (noNetwork) Load(_ context.Context, ref string) (string, error) {
	return "", fmt.Errorf("%s is not a local file, and healthd asks no network", ref)
}

// Dir is for references that were loaded.
func (noNetwork) Dir(string) string { return "" }

// redirectComposeLog has the warnings of Compose's reader, such as of a variable that is not set, look like others,
// until it is restored.
func redirectComposeLog(w io.Writer) (restore func()) {
	log := logrus.StandardLogger()
	out, formatter := log.Out, log.Formatter
	log.SetOutput(w)
	log.SetFormatter(composeWarning{})
	return func() {
		log.SetOutput(out)
		log.SetFormatter(formatter)
	}
}

type composeWarning struct{}

// Format implements logrus.Formatter.
func (composeWarning) Format(entry *logrus.Entry) ([]byte, error) {
	return []byte("warning: " + line(entry.Message) + "\n"), nil
}
