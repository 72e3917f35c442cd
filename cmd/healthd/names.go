package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"healthd/supervisor/api"
)

func containerPath(name string, rest ...string) string {
	return "/v1/containers/" + strings.Join(append([]string{name}, rest...), "/")
}

// requestError says what could not be done to a container. When there is no such
// container, it says what else the name stands for, or suggests similar names.
func (c *client) requestError(ctx context.Context, cannot, name string, err error) error {
	refused, ok := errors.AsType[*responseError](err)
	if !ok {
		return err
	}
	cannot = fmt.Sprintf("cannot %s %s", cannot, name)
	if refused.status != http.StatusNotFound {
		return fmt.Errorf("%s: %w", cannot, err)
	}
	var known api.Status
	if c.get(ctx, containerPath(name), nil, &known) == nil {
		return fmt.Errorf("%s: %w", cannot, err)
	}
	if other := c.otherMeaning(ctx, name); other != "" {
		return fmt.Errorf("%s: %s", cannot, other)
	}
	return fmt.Errorf("%s: no supervised container has that name or ID%s", cannot, didYouMean(name, c.names(ctx)))
}

// otherMeaning says what a name stands for that no supervised container has; "" for nothing.
func (c *client) otherMeaning(ctx context.Context, name string) string {
	if text := c.membersText(ctx, name); text != "" {
		return text
	}
	return c.leftAloneText(ctx, name)
}

// membersText tells of a service or project of that name.
func (c *client) membersText(ctx context.Context, name string) string {
	var members []api.Status
	if c.get(ctx, "/v1/named/"+name, nil, &members) != nil || len(members) == 0 {
		return ""
	}
	const most = 5
	names := namesOf(members)
	if more := len(names) - most; more > 0 {
		names = append(names[:most], fmt.Sprintf("%d more", more))
	}
	return "that is a service or project; name one of its containers: " + line(strings.Join(names, ", "))
}

// leftAloneText tells of a container of that name that healthd leaves alone.
func (c *client) leftAloneText(ctx context.Context, name string) string {
	u, err := c.unsupervised(ctx)
	if err != nil {
		return ""
	}
	if b, _ := findBystander(u.Containers, name); b == nil {
		return ""
	}
	return "healthd leaves that container alone; healthd explain " + name + " says why"
}

// didYouMean suggests the names that are similar to a wrong one, if any.
func didYouMean(wrong string, names []string) string {
	near := nearNames(wrong, names)
	if len(near) == 0 {
		return ""
	}
	return ": did you mean " + line(strings.Join(near, ", ")) + "?"
}

func (c *client) names(ctx context.Context) []string {
	var all []api.Status
	if c.get(ctx, "/v1/containers", nil, &all) != nil {
		return nil
	}
	return namesOf(all)
}

// namesOf returns the names by which commands find these containers.
func namesOf(all []api.Status) []string {
	api.DisplayNames(all)
	names := make([]string, len(all))
	for i, s := range all {
		names[i] = s.Name
	}
	return names
}

// nearNames returns a few similar names, the most similar first.
func nearNames(wrong string, names []string) []string {
	const most = 5
	far := (len(wrong) + 2) / 3
	distance := map[string]int{}
	var near []string
	for _, name := range names {
		d := editDistance(wrong, name)
		if strings.Contains(name, wrong) || strings.Contains(wrong, name) {
			d = min(d, 1)
		}
		if d <= far && d < len(wrong) {
			distance[name] = d
			near = append(near, name)
		}
	}
	slices.SortFunc(near, func(x, y string) int {
		if d := distance[x] - distance[y]; d != 0 {
			return d
		}
		return strings.Compare(x, y)
	})
	return near[:min(len(near), most)]
}

// editDistance returns how many bytes must be inserted, deleted or changed.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			d := diagonal
			if a[i] != b[j] {
				d = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], d
		}
	}
	return row[len(b)]
}

// completeNames completes the names of the daemon's containers.
func (a *app) completeNames(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	c, err := a.client()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names := slices.DeleteFunc(c.names(cmd.Context()), func(n string) bool { return slices.Contains(args, n) })
	return names, cobra.ShellCompDirectiveNoFileComp
}

func (a *app) completeName(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.completeNames(cmd, args, toComplete)
}
