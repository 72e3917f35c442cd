package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"healthd/configs"
	"healthd/supervisor/api"
)

// checkForm is what to check beside the configuration: at most one of these.
type checkForm struct {
	daemon    bool     // the running daemon's containers
	container string   // what would come of a container
	compose   []string // what would come of the services in these files
}

func (a *app) checkCommand() *cobra.Command {
	var f checkForm
	cmd := &cobra.Command{
		Use:     "check",
		Example: "  healthd check --config /etc/healthd/conf.d\n  healthd check --daemon\n  healthd check --container shop-web-1\n  healthd check --compose compose.yaml",
		Short:   "Validate the configuration",
		Long: "Read and validate the configuration. Print the files and every problem. If there is none, print a\n" +
			"warning for everything that is valid but probably a mistake, or that this host does not have, and for\n" +
			"requests that an engine, or a socket proxy before it, does not allow. If a daemon runs, also print its\n" +
			"warnings about containers. --daemon wants one to run, prints all of its warnings, and counts containers\n" +
			"with wrong labels as problems. --container asks the engines, with or without a daemon, and prints the\n" +
			"spec that a container would have and the origin of each setting, or what each spec misses. --compose\n" +
			"does so in short for each service of a Compose file. Each file is a project of its own; docker compose\n" +
			"config joins several, and - reads them from stdin.",
		Args: noFiles,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(cmd); err != nil {
				return err
			}
			switch {
			case f.container != "":
				return a.checkOne(cmd, f.container)
			case len(f.compose) > 0:
				return a.checkCompose(cmd, f.compose)
			}
			c, err := a.checkConfig(cmd.Context())
			if err != nil {
				return err
			}
			running := newClient(cmp.Or(a.socket, c.Listen.Control), warningsTimeout)
			if f.daemon {
				return a.checkDaemon(cmd.Context(), running)
			}
			a.printWarnings(refusedRequests(cmd.Context(), c))
			a.printContainerWarnings(cmd.Context(), running)
			return nil
		},
	}
	cmd.Flags().BoolVar(&f.daemon, "daemon", false, "also check the running daemon's containers")
	cmd.Flags().StringVar(&f.container, "container", "", "show what would come of the container `NAME`")
	cmd.Flags().StringArrayVar(&f.compose, "compose", nil, "show what would come of the services in a Compose `FILE`; may be repeated")
	_ = cmd.RegisterFlagCompletionFunc("container", a.completeNames)
	return cmd
}

// check says what is wrong with the flags.
func (f checkForm) check(cmd *cobra.Command) error {
	var given []string
	for _, flag := range []string{"daemon", "container", "compose"} {
		if cmd.Flags().Changed(flag) {
			given = append(given, "--"+flag)
		}
	}
	switch {
	case len(given) > 1:
		return usageError{fmt.Errorf("check takes --daemon, --container or --compose, not %s", list(given))}
	case cmd.Flags().Changed("container") && f.container == "":
		return usageError{errors.New("--container needs a name")}
	case slices.Contains(f.compose, ""):
		return usageError{errors.New("--compose needs a file")}
	}
	return nil
}

// checkOne prints what would come of a container, or the problems of the configuration.
func (a *app) checkOne(cmd *cobra.Command, name string) error {
	c, err := a.load()
	if err != nil {
		return err
	}
	ctx, cancel := interruptible(cmd)
	defer cancel()
	return a.checkContainer(ctx, c, name)
}

// noFiles refuses arguments: nobody shall believe that a file was checked that was not.
func noFiles(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usageError{fmt.Errorf("check takes no arguments: healthd check --config %s", strings.Join(args, " --config "))}
}

// checkConfig prints the files, and problems or warnings.
func (a *app) checkConfig(ctx context.Context) (*configs.Config, error) {
	if err := a.printFiles(); err != nil {
		return nil, err
	}
	c, err := a.load()
	if err != nil {
		return nil, err
	}
	if ended := c.EndedCertificates(time.Now()); len(ended) > 0 {
		for _, p := range ended {
			fmt.Fprintln(a.stderr, p)
		}
		return nil, unusable{ended}
	}
	warnings := slices.Concat(c.Warnings(), hostWarnings(ctx, c, resolveName))
	a.printWarnings(warnings)
	text := plural(len(c.SpecNames()), "spec")
	if len(warnings) > 0 {
		text += ", " + plural(len(warnings), "warning")
	}
	_, err = fmt.Fprintln(a.stdout, "configuration is valid:", text)
	return c, err
}

// checkDaemon prints all that the running daemon warns of. The error counts the containers
// with wrong labels.
func (a *app) checkDaemon(ctx context.Context, c *client) error {
	c.awaitSync(ctx)
	refused, ok := errors.AsType[*responseError](c.starting(ctx))
	if ok && refused.status == http.StatusServiceUnavailable {
		return fmt.Errorf("cannot check the daemon's containers: it does not know all of them yet: %w", refused)
	}
	all, _, err := c.statuses(ctx, nil)
	if err != nil {
		return err
	}
	api.DisplayNames(all)
	a.printWarnings(slices.Concat(c.warnings(ctx), containerWarnings(all)))
	invalid := 0
	for _, s := range all {
		if s.Invalid != "" {
			invalid++
			fmt.Fprintf(a.stderr, "%s is Invalid, healthd does not supervise it: %s\n", s.Name, line(s.Invalid))
		}
	}
	if invalid > 0 {
		return fmt.Errorf("cannot supervise %s: wrong labels", plural(invalid, "container"))
	}
	_, err = fmt.Fprintln(a.stdout, "the daemon's containers are valid:", plural(len(all), "container"))
	return err
}

// load reads the configuration and prints its problems, one per line as editors
// like it.
func (a *app) load() (*configs.Config, error) {
	c, err := loadConfig(a.configs)
	problems, ok := errors.AsType[configs.Problems](err)
	if !ok {
		return c, err
	}
	for _, p := range problems {
		fmt.Fprintln(a.stderr, p)
	}
	return nil, unusable{problems}
}

// unusable is the error for a configuration whose problems are printed already.
type unusable struct{ problems configs.Problems }

// Error counts the problems.
func (u unusable) Error() string {
	return "cannot use the configuration: " + plural(len(u.problems), "problem")
}

// Unwrap returns the problems.
func (u unusable) Unwrap() error { return u.problems }

// plural writes a number with its noun.
func plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}
