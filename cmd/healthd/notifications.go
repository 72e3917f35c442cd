package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"healthd/configs"
	"healthd/supervisor"
	"healthd/supervisor/api"
	"healthd/supervisor/journal"
	"healthd/supervisor/notify"
)

// newNotifications returns who tells the receivers of c.
func newNotifications(c *configs.Config, board *supervisor.Board, j *journal.Journal) *notify.Notifier {
	file := ""
	if c.State.Dir != "" {
		file = filepath.Join(c.State.Dir, "notify.json")
	}
	host, _ := os.Hostname()
	return notify.New(notify.Config{
		Board: board, History: j, Receivers: receiversOf(c), Host: host, File: file,
		// The program that runs, also when an upgrade has replaced its file.
		Chat: []string{"/proc/self/exe", "notify", "deliver"},
	})
}

func receiversOf(c *configs.Config) []notify.Receiver {
	var all []notify.Receiver
	for i := range c.Notify {
		n := &c.Notify[i]
		reasons := n.Reasons
		if reasons == nil {
			reasons = notify.Reasons()
		}
		all = append(all, notify.Receiver{
			Name: n.Name, URL: n.URL, Webhook: n.Webhook, Command: n.Command, Secret: n.Secret, Reasons: reasons, Wants: n.Wants,
			GroupWait: n.GroupWait, Repeat: n.Repeat, Timeout: n.Timeout, MaxPerHour: n.PerHour,
		})
	}
	return all
}

// testNotify sends a test message, for the API.
func (d *daemon) testNotify(ctx context.Context, name string) ([]api.NotifyTest, error) {
	outcomes, err := d.notifications.Test(ctx, name)
	all := []api.NotifyTest{}
	for _, o := range outcomes {
		all = append(all, api.NotifyTest{Receiver: o.Receiver, Error: textOf(o.Err), Seconds: o.Took.Seconds()})
	}
	return all, err
}

func (a *app) notifyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "notify test [NAME]",
		Short: "Send a test message to each receiver of notifications",
		Long: "Have the daemon send a test message to the [[notify]] of that name, or to all, now. It makes one attempt\n" +
			"each, waits, and prints one line for each. The exit code is 1 if one of them failed.",
		Example: "  healthd notify test\n  healthd notify test oncall",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 || args[0] != "test" {
				return errors.New("must be: healthd notify test [NAME]")
			}
			return cobra.MaximumNArgs(2)(nil, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error { return a.notifyTest(cmd, args[1:]) },
	}
	cmd.AddCommand(&cobra.Command{
		Use: "deliver", Hidden: true, Args: cobra.NoArgs, // what the daemon runs for chat and mail
		RunE: func(*cobra.Command, []string) error { return notify.DeliverChat(os.Stdin) },
	})
	return cmd
}

func (a *app) notifyTest(cmd *cobra.Command, names []string) error {
	const patience = 6 * time.Minute // longer than an attempt may take
	c, err := a.client()
	if err != nil {
		return err
	}
	ctx, cancel := interruptible(cmd)
	defer cancel()
	c.timeout = patience
	query := url.Values{}
	if len(names) > 0 {
		query.Set("receiver", names[0])
	}
	var outcomes []api.NotifyTest
	if err := c.post(ctx, "/v1/notify/test", query, &outcomes); err != nil {
		return fmt.Errorf("cannot send a test message: %w", err)
	}
	failed := 0
	for _, o := range outcomes {
		text := fmt.Sprintf("delivered in %.1f s", o.Seconds)
		if o.Error != "" {
			failed++
			text = "failed after " + fmt.Sprintf("%.1f s: ", o.Seconds) + line(o.Error)
		}
		if _, err := fmt.Fprintf(a.stdout, "%s: %s\n", line(o.Receiver), text); err != nil {
			return err
		}
	}
	if failed > 0 {
		return fmt.Errorf("cannot notify %d of %s", failed, plural(len(outcomes), "receiver"))
	}
	return nil
}
