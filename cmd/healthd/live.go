package main

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/spf13/cobra"
)

func (a *app) liveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "live",
		Short: "Say whether the daemon lives, for a HEALTHCHECK",
		Long: "Ask the daemon over its control socket whether its main loop turns, as /livez does. The exit code is 0 if\n" +
			"it does. An engine that is away makes no difference. The HEALTHCHECK of healthd's image is this command.",
		Example: "  healthd live",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			return c.withTimeout(cmd.Context(), func(ctx context.Context) error { return a.live(ctx, c) })
		},
	}
}

func (a *app) live(ctx context.Context, c *client) error {
	const maxBody = 4 << 10
	answer, err := c.send(ctx, http.MethodGet, "/livez", nil, "", "text/plain")
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, io.LimitReader(answer.Body, maxBody)); err != nil {
		return fmt.Errorf("cannot read the daemon's answer: %w", err)
	}
	_, err = fmt.Fprintln(a.stdout, "healthd lives")
	return err
}
