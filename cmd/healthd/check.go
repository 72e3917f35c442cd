package main

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"healthd/configs"
)

func (a *app) checkCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "Validate the configuration",
		Long: "Read and validate the configuration, and print every problem. If there is none, print a\n" +
			"warning for everything that is valid but probably a mistake. If a daemon runs, also print\n" +
			"its warnings about containers.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.load()
			if err != nil {
				return err
			}
			text := plural(len(c.SpecNames()), "spec")
			if warnings := c.Warnings(); len(warnings) > 0 {
				text += ", " + plural(len(warnings), "warning")
				for _, w := range warnings {
					fmt.Fprintln(a.stderr, "warning:", w)
				}
			}
			if _, err = fmt.Fprintln(a.stdout, "configuration is valid:", text); err != nil {
				return err
			}
			a.printContainerWarnings(cmd.Context(), newClient(cmp.Or(a.socket, c.Listen.Control), warningsTimeout))
			return nil
		},
	}
}

// load reads the configuration and prints its problems, one per line as editors
// like it.
func (a *app) load() (*configs.Config, error) {
	c, err := configs.Load(a.configs)
	problems, ok := errors.AsType[configs.Problems](err)
	if !ok {
		return c, err
	}
	for _, p := range problems {
		fmt.Fprintln(a.stderr, p)
	}
	return nil, fmt.Errorf("cannot use the configuration: %s", plural(len(problems), "problem"))
}

// plural writes a number with its noun.
func plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}
