package main

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"healthd/runtime"
	"healthd/supervisor/api"
)

// unsupervised asks all engines at once for the containers that healthd leaves alone, and says why.
func (d *daemon) unsupervised(ctx context.Context) api.Unsupervised {
	const patience = 10 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	found := make([]api.Unsupervised, len(d.engines))
	var asking sync.WaitGroup
	for i, e := range d.engines {
		asking.Go(func() {
			all, err := e.client.List(ctx)
			if err != nil {
				found[i].Away = []string{e.name + ": " + err.Error()}
			}
			found[i].Containers = d.bystandersAmong(e.name, all)
		})
	}
	asking.Wait()
	u := api.Unsupervised{Containers: []api.Bystander{}, Away: []string{}}
	for _, f := range found {
		u.Containers, u.Away = append(u.Containers, f.Containers...), append(u.Away, f.Away...)
	}
	slices.SortFunc(u.Containers, func(x, y api.Bystander) int { return strings.Compare(x.Name, y.Name) })
	return u
}

// bystandersAmong returns those of a list that the configuration leaves alone.
func (d *daemon) bystandersAmong(engine string, all []runtime.Summary) []api.Bystander {
	var left []api.Bystander
	config, board := d.config.Load(), d.supervisor.Board()
	for _, s := range all {
		if _, err := board.Find(runtime.IDPrefix + s.ID); err == nil {
			continue
		}
		if why := config.WhyNot(s.Name, s.Labels); len(why) > 0 {
			left = append(left, api.Bystander{Name: s.Name, ID: s.ID, Runtime: engine, Image: s.Image, State: string(s.State), Why: why})
		}
	}
	return left
}

// unsupervised asks the daemon for them.
func (c *client) unsupervised(ctx context.Context) (u api.Unsupervised, err error) {
	const timeout = 30 * time.Second
	patient := newClient(c.socket, timeout)
	err = patient.get(ctx, "/v1/unsupervised", nil, &u)
	return u, err
}

// bystander returns the container of that name or ID prefix that healthd leaves alone, nil if there
// is none, or several.
func (c *client) bystander(ctx context.Context, name string) *api.Bystander {
	const minPrefix = 4
	u, err := c.unsupervised(ctx)
	if err != nil {
		return nil
	}
	is := func(b api.Bystander) bool { return b.Name == name || b.ID == name }
	if i := slices.IndexFunc(u.Containers, is); i >= 0 {
		return &u.Containers[i]
	}
	begins := func(b api.Bystander) bool {
		return len(name) >= minPrefix && strings.HasPrefix(b.ID[strings.LastIndexByte(b.ID, ':')+1:], name)
	}
	i := slices.IndexFunc(u.Containers, begins)
	if i < 0 || slices.ContainsFunc(u.Containers[i+1:], begins) {
		return nil
	}
	return &u.Containers[i]
}

// statusOf is a container that healthd leaves alone as status --all shows it.
func statusOf(b api.Bystander) api.Status {
	return api.Status{
		Name: b.Name, ID: b.ID, Runtime: b.Runtime, Image: b.Image, Conditions: []api.Condition{}, Probes: map[string]api.ProbeStatus{}, Warnings: []string{},
		Unsupervised: strings.Join(b.Why, "; "),
	}
}

// explainBystander is healthd explain of a container that healthd leaves alone.
func (a *app) explainBystander(b *api.Bystander) error {
	p := &page{columns: a.columns()}
	p.WriteString(line(b.Name) + " is not supervised: healthd leaves it alone\n")
	p.field("runtime", "%s, %s", line(b.Runtime), line(b.ID))
	p.field("image", "%s", orDash(b.Image))
	p.field("state", "%s", orDash(b.State))
	p.WriteString("Why:\n")
	for _, why := range b.Why {
		p.write("  ", line(why), 4)
	}
	p.write("Next: ", "give it a label such as healthd.enable=true, or a [[spec]] that matches it, and then healthd reload", 6)
	_, err := a.stdout.Write([]byte(p.String()))
	return err
}
