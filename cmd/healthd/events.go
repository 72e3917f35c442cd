package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"healthd/supervisor"
	"healthd/supervisor/api"
	"healthd/supervisor/core"
)

func (a *app) eventsCommand() *cobra.Command {
	var output, since string
	var follow bool
	var newest int
	cmd := &cobra.Command{
		Use:               "events [NAME]",
		Short:             "Show what happened to all containers, or to one",
		Example:           "  healthd events --since 1h\n  healthd events --since \"2026-01-02 15:04:05\"\n  healthd events shop-web-1 -n 20 --follow",
		Args:              argCount(0, 1),
		ValidArgsFunction: a.completeName,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := oneOf("output", output, asTable, asJSON); err != nil {
				return err
			}
			query, err := eventsQuery(since, args)
			if err != nil {
				return err
			}
			if newest < 0 {
				return usageError{fmt.Errorf("-n must be a number of events, it is %d", newest)}
			}
			if cmd.Flags().Changed("number") {
				query.Set("n", strconv.Itoa(newest))
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			ctx, cancel := interruptible(cmd)
			defer cancel()
			if follow {
				return a.followEvents(ctx, c, query, output)
			}
			return a.listEvents(ctx, c, query, output)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", asTable, "table or json")
	cmd.Flags().StringVar(&since, "since", "", "only events since then: a duration such as 10m or 1d, or a time such as \"2006-01-02 15:04:05\"")
	cmd.Flags().IntVarP(&newest, "number", "n", 0, "only the `N` newest of them (default all)")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with new events until interrupted")
	return cmd
}

func eventsQuery(since string, args []string) (url.Values, error) {
	query := url.Values{}
	if len(args) > 0 {
		query.Set("container", args[0])
	}
	if since != "" {
		t, err := parseSince(since, time.Now())
		if err != nil {
			return nil, usageError{fmt.Errorf("--%w", err)} // it begins with "since"
		}
		query.Set("since", t.Format(time.RFC3339Nano))
	}
	return query, nil
}

// parseSince is api.ParseSince, and takes what the table shows: local times.
func parseSince(text string, now time.Time) (time.Time, error) {
	if t, err := time.ParseInLocation(timeLayout, text, time.Local); err == nil {
		return t, nil
	}
	return api.ParseSince(text, now)
}

// listEvents prints the events. When there are none, it reports an unknown container; one
// that is gone may still have events.
func (a *app) listEvents(ctx context.Context, c *client, query url.Values, output string) error {
	events := []core.Event{}
	if err := c.get(ctx, "/v1/events", query, &events); err != nil {
		return cannotShowEvents(err)
	}
	if err := c.checkExists(ctx, query.Get("container"), events); err != nil {
		return err
	}
	if output == asJSON {
		encoder := json.NewEncoder(supervisor.Escaping{To: a.stdout})
		encoder.SetIndent("", "  ")
		return encoder.Encode(events)
	}
	t := table{header: []string{"TIME", "CONTAINER", "REASON", "MESSAGE"}, width: a.columns(), flexible: eventColumns}
	for _, ev := range events {
		t.add(eventRow(ev)...)
	}
	_, err := io.WriteString(a.stdout, t.String())
	return err
}

// Long names are cut to leave room for messages; -o json has them whole.
var eventColumns = []flexible{{column: 3, least: 40, wraps: true}, {column: 1, least: 12}, {column: 3, least: 20, wraps: true}}

func eventRow(ev core.Event) []cell {
	return []cell{{text: formatTime(ev.Time)}, {text: orDash(ev.Container)}, {text: ev.Reason}, {text: repeated(ev)}}
}

// repeated returns the message of ev, after how often it came if it stands for several.
func repeated(ev core.Event) string {
	if ev.Count == 0 {
		return line(ev.Message)
	}
	return fmt.Sprintf("(x%d since %s) %s", ev.Count, formatTime(ev.First), line(ev.Message))
}

// checkExists returns an error when there are no events and no such container.
func (c *client) checkExists(ctx context.Context, name string, events []core.Event) error {
	if name == "" || len(events) > 0 {
		return nil
	}
	if err := c.get(ctx, containerPath(name), nil, &api.Status{}); err != nil {
		return c.requestError(ctx, "show the events of", name, err)
	}
	return nil
}

func cannotShowEvents(err error) error {
	if _, ok := errors.AsType[*responseError](err); ok {
		return fmt.Errorf("cannot show the events: %w", err)
	}
	return err
}

// followEvents prints the kept events and then new ones.
func (a *app) followEvents(ctx context.Context, c *client, query url.Values, output string) error {
	if !query.Has("since") {
		query.Set("since", time.Unix(0, 0).UTC().Format(time.RFC3339))
	}
	var kept []core.Event
	if err := c.get(ctx, "/v1/events", url.Values{"container": query["container"]}, &kept); err != nil {
		return unlessCancelled(ctx, cannotShowEvents(err))
	}
	if err := c.checkExists(ctx, query.Get("container"), kept); err != nil {
		return unlessCancelled(ctx, err)
	}
	answer, err := c.stream(ctx, "/v1/events", query, "text/event-stream")
	if err != nil {
		return unlessCancelled(ctx, cannotShowEvents(err))
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	const longest = 1 << 20
	lines.Buffer(nil, longest)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		if err := a.printEvent(data, output); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return unlessCancelled(ctx, fmt.Errorf("cannot follow the events: %w", err))
	}
	return unlessCancelled(ctx, errors.New("cannot follow the events: the daemon has ended"))
}

// unlessCancelled drops the error of a command that the user interrupted.
func unlessCancelled(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (a *app) printEvent(data, output string) error {
	if output == asJSON {
		_, err := fmt.Fprintln(supervisor.Escaping{To: a.stdout}, data)
		return err
	}
	var ev core.Event
	if err := json.Unmarshal([]byte(data), &ev); err != nil {
		return fmt.Errorf("cannot read the daemon's answer: %w", err)
	}
	var b strings.Builder
	t := table{flexible: eventColumns}
	row := eventRow(ev)
	t.write(&b, row, followedWidths(row, a.columns()))
	_, err := io.WriteString(a.stdout, b.String())
	return err
}

// followedWidths are the column widths of a table whose rows after this one are not known yet.
func followedWidths(row []cell, columns int) []int {
	const roomy = 100
	const ofTime, ofName, ofShortName, ofReason = 19, 20, 12, 21
	name := ofName
	if columns < roomy {
		name = ofShortName
	}
	if columns < unlimited {
		return []int{ofTime, name, ofReason, columns - ofTime - name - ofReason - 3*len(gap)}
	}
	widths := []int{ofTime, name, ofReason, 0}
	for i, c := range row {
		widths[i] = max(widths[i], utf8.RuneCountInString(c.text))
	}
	return widths
}
