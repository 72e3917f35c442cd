package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"healthd/supervisor/api"
)

// gateStatuses are what a readiness gate can be, as Kubernetes writes it.
var gateStatuses = []string{"True", "False"}

func (a *app) gateCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "gate NAME TYPE True|False",
		Short: "Set a readiness gate of a container",
		Long: "Set a readiness gate of a container to True or False, and print whether the container is\n" +
			"ready. It is ready only when its readiness probe succeeds and all its gates are True. An\n" +
			"unset gate is False. The key readiness_gates of the spec lists the gates.",
		Example:           "  healthd gate shop-web-1 example.com/warmed-up true",
		Args:              argCount(3, 3),
		ValidArgsFunction: a.completeGate,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, gate := args[0], args[1]
			status, err := gateStatus(args[2])
			if err != nil {
				return err
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			ctx, cancel := interruptible(cmd)
			defer cancel()
			c.awaitSync(ctx)
			var s api.Status
			if err := c.put(ctx, containerPath(name, "gates", gate), status, &s); err != nil {
				return c.requestError(ctx, "set a gate of", name, err)
			}
			_, err = fmt.Fprintf(a.stdout, "%s: %s is %s; %s\n", line(s.Name), line(gate), status, readyInWords(s))
			return err
		},
	}
}

// gateStatus returns the status as the daemon wants it, in whatever case it was typed.
func gateStatus(text string) (string, error) {
	for _, status := range gateStatuses {
		if strings.EqualFold(text, status) {
			return status, nil
		}
	}
	return "", usageError{fmt.Errorf("the gate must be True or False, it is %q", text)}
}

// readyInWords says whether a container is ready, and why not.
func readyInWords(s api.Status) string {
	c := readyCondition(s)
	switch {
	case s.Ready:
		return "ready"
	case c.Message == "":
		return "not ready: " + c.Reason
	}
	return "not ready: " + c.Reason + ": " + line(c.Message)
}

// completeGate offers the shell names, then the gates of that container, then what a
// gate can be.
func (a *app) completeGate(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	const nothingElse = cobra.ShellCompDirectiveNoFileComp
	switch len(args) {
	case 0:
		return a.completeNames(cmd, args, toComplete)
	case 1:
		return a.gatesOf(cmd, args[0]), nothingElse
	case 2:
		return gateStatuses, nothingElse
	}
	return nil, nothingElse
}

// gatesOf returns the readiness gates of a container, none when it cannot be asked.
func (a *app) gatesOf(cmd *cobra.Command, name string) []string {
	c, err := a.client()
	if err != nil {
		return nil
	}
	var s api.Status
	if c.get(cmd.Context(), containerPath(name), nil, &s) != nil {
		return nil
	}
	var types []string
	for _, gate := range s.Gates() {
		types = append(types, gate.Type)
	}
	return types
}
