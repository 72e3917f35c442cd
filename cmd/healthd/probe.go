package main

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"healthd/supervisor/api"
)

func (a *app) probeCommand() *cobra.Command {
	types := []string{"startup", "liveness", "readiness"}
	return &cobra.Command{
		Use:     "probe NAME [startup|liveness|readiness]",
		Example: "  healthd probe shop-web-1 readiness",
		Short:   "Run a probe of a container once, now",
		Long: "Run a probe of a container once, now, and print its outcome, latency and output. This changes\n" +
			"nothing. Without a type healthd runs the liveness probe, else readiness, else startup. The\n" +
			"exit code is 0 if the probe succeeds.",
		Args: argCount(1, 2),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 1 {
				return types, cobra.ShellCompDirectiveNoFileComp
			}
			return a.completeName(cmd, args, toComplete)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			query := url.Values{}
			if len(args) > 1 {
				if !slices.Contains(types, args[1]) {
					return usageError{fmt.Errorf("the probe must be one of %s, it is %q", strings.Join(types, ", "), args[1])}
				}
				query.Set("type", args[1])
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			ctx, cancel := interruptible(cmd)
			defer cancel()
			c.awaitSync(ctx)
			// A ping tells a daemon that does not answer from a slow probe.
			if err := c.get(ctx, containerPath(args[0]), nil, &api.Status{}); err != nil {
				return c.requestError(ctx, "probe", args[0], err)
			}
			var result api.ProbeResult
			if err := c.do(ctx, http.MethodPost, containerPath(args[0], "probe"), query, "", &result); err != nil {
				return c.requestError(ctx, "probe", args[0], err)
			}
			writeProbeResult(a.stdout, args[0], result)
			if result.Outcome != "Success" {
				return errReported
			}
			return nil
		},
	}
}

func writeProbeResult(w io.Writer, name string, result api.ProbeResult) {
	verdict := result.Outcome
	switch {
	case result.Warning:
		verdict += " with a warning"
	case result.Cause != "":
		verdict += " (" + result.Cause + ")"
	}
	fmt.Fprintf(w, "%s probe of %s: %s in %s\n", result.Type, name, verdict, formatLatency(result.LatencySeconds))
	writeOutput(w, result.Output, 0)
}
