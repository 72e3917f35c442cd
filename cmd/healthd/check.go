package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"healthd/configs"
)

func (a *app) checkCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "Read and validate the configuration",
		Long:  "Read and validate the configuration, and print everything that is wrong with it.",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			c, err := a.load()
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.stdout, "configuration is valid: %s\n", count(len(c.SpecNames()), "spec"))
			return err
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
	return nil, fmt.Errorf("cannot use the configuration: %s", count(len(problems), "problem"))
}

// count writes a number with its noun.
func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}
