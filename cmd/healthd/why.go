package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"healthd/supervisor"
)

func (a *app) whyCommand() *cobra.Command {
	const asText = "text"
	var output string
	var run int
	cmd := &cobra.Command{
		Use:   "why NAME",
		Short: "Show what a container was doing when it failed",
		Long: "Show the flight record of a container's last failure: what its probes found, what the command of\n" +
			"[spec.recorder] said inside it, the end of its log, its processes, memory and CPU, and the events\n" +
			"before. healthd makes a record before it stops a container that failed, and after each crash. A\n" +
			"container that is gone has its records still. They have no values of the environment.",
		Example:           "  healthd why shop-web-1\n  healthd why shop-web-1 --run -1\n  healthd why shop-web-1 --run 3 -o json",
		Args:              argCount(1, 1),
		ValidArgsFunction: a.completeName,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := oneOf("output", output, asText, asJSON); err != nil {
				return err
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			ctx, cancel := interruptible(cmd)
			defer cancel()
			c.awaitSync(ctx)
			record, all, err := c.flightRecord(ctx, args[0], run)
			if err != nil {
				return err
			}
			if output == asJSON {
				encoder := json.NewEncoder(supervisor.Escaping{To: a.stdout})
				encoder.SetIndent("", "  ")
				return encoder.Encode(record)
			}
			return writeFlightRecord(a.stdout, record, all, a.columns(), time.Now())
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", asText, "text or json")
	cmd.Flags().IntVar(&run, "run", 0, "the record of run `N`, as the page numbers them; -1 is the one before the newest (default the newest)")
	return cmd
}

// flightRecord returns a record of a container, and which it has, newest first.
func (c *client) flightRecord(ctx context.Context, name string, run int) (*supervisor.FlightRecord, []supervisor.RecordInfo, error) {
	var all []supervisor.RecordInfo
	if err := c.get(ctx, containerPath(name, "records"), nil, &all); err != nil {
		return nil, nil, c.requestError(ctx, "show the flight record of", name, err)
	}
	info, err := chooseRecord(all, name, run)
	if err != nil {
		return nil, nil, err
	}
	record := &supervisor.FlightRecord{}
	if err := c.get(ctx, containerPath(name, "records", strconv.Itoa(info.Run)), nil, record); err != nil {
		return nil, nil, c.requestError(ctx, "show the flight record of", name, err)
	}
	return record, all, nil
}

// chooseRecord returns the record of a run; of a negative one that many before the newest.
func chooseRecord(all []supervisor.RecordInfo, name string, run int) (supervisor.RecordInfo, error) {
	if len(all) == 0 {
		return supervisor.RecordInfo{}, fmt.Errorf("there is no flight record of %s: healthd has seen no failure of it. healthd events %[1]s shows what happened", name)
	}
	i := slices.IndexFunc(all, func(info supervisor.RecordInfo) bool { return info.Run == run })
	switch {
	case run <= 0 && -run < len(all):
		return all[-run], nil
	case run <= 0:
		return supervisor.RecordInfo{}, fmt.Errorf("there is no flight record of %s so far back: there are %s", name, plural(len(all), "record"))
	case i < 0:
		return supervisor.RecordInfo{}, fmt.Errorf("there is no flight record of run %d of %s: there are those of %s", run, name, runsOf(all))
	}
	return all[i], nil
}

func runsOf(all []supervisor.RecordInfo) string {
	text := "run "
	for i, info := range all {
		if i > 0 {
			text += ", "
		}
		text += strconv.Itoa(info.Run)
	}
	return text
}
