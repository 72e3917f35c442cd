package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"healthd/configs"
	"healthd/runtime"
	"healthd/supervisor/api"
)

// unsupervised asks all engines at once for the containers that healthd leaves alone, and says why.
func (d *daemon) unsupervised(ctx context.Context) api.Unsupervised {
	return listAll(ctx, d.engines, d.bystandersAmong)
}

// listAll asks all engines at once for their lists, and has choose make of each what it wants.
func listAll(ctx context.Context, engines []*engine, choose func(engine string, all []runtime.Summary) []api.Bystander) api.Unsupervised {
	const patience = 10 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	found := make([]api.Unsupervised, len(engines))
	var asking sync.WaitGroup
	for i, e := range engines {
		asking.Go(func() {
			all, err := e.source.List(ctx)
			if err != nil {
				found[i].Away = []string{e.name + ": " + err.Error()}
			}
			found[i].Containers = choose(e.name, all)
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

const notTakenIn = "healthd has not taken it in yet"

// bystandersAmong returns those of a list that the configuration leaves alone, or that healthd has not
// taken in.
func (d *daemon) bystandersAmong(engine string, all []runtime.Summary) []api.Bystander {
	var left []api.Bystander
	config, board := d.config.Load(), d.supervisor.Board()
	for _, s := range all {
		if _, err := board.Find(runtime.IDPrefix + s.ID); err == nil {
			continue
		}
		why := config.WhyNot(s.Traits())
		if len(why) == 0 { // it, or the configuration, is new
			why = []string{notTakenIn}
		}
		left = append(left, newBystander(engine, s, why))
	}
	return left
}

func newBystander(engine string, s runtime.Summary, why []string) api.Bystander {
	return api.Bystander{Name: s.Traits().Name, ID: s.ID, Runtime: engine, Namespace: s.Namespace, Image: s.Image, State: string(s.State), Why: why}
}

// unsupervised asks the daemon for them.
func (c *client) unsupervised(ctx context.Context) (u api.Unsupervised, err error) {
	const timeout = 30 * time.Second
	patient := newClient(c.socket, timeout)
	err = patient.get(ctx, "/v1/unsupervised", nil, &u)
	if _, refused := errors.AsType[*responseError](err); refused {
		err = fmt.Errorf("cannot list what healthd leaves alone: %w", err)
	}
	return u, err
}

// findBystander returns the container that a name means, as Board.Find does: by its name, its
// qualified name, its ID, or the beginning of that. It returns nil for none, and then maybe the names among
// which to choose.
func findBystander(all []api.Bystander, name string) (found *api.Bystander, candidates []string) {
	const minPrefix = 4
	for _, is := range []func(*runtime.Container) bool{
		func(c *runtime.Container) bool { return runtime.IDPrefix+c.ID == name },
		func(c *runtime.Container) bool { return c.Name == name && !c.NamedAsID() },
		func(c *runtime.Container) bool { return c.QualifiedName() == name },
		func(c *runtime.Container) bool { return c.ID == name },
		func(c *runtime.Container) bool {
			return len(name) >= minPrefix && strings.HasPrefix(c.EngineID(), name)
		},
	} {
		var these []*runtime.Container
		for i := range all {
			if c := containerOf(all[i]); is(c) {
				these, found = append(these, c), &all[i]
			}
		}
		if len(these) == 1 {
			return found, nil
		}
		if len(these) > 1 {
			return nil, runtime.NamesAmong(these)
		}
	}
	return nil, nil
}

// containerOf has what names are made of.
func containerOf(b api.Bystander) *runtime.Container {
	return &runtime.Container{Runtime: b.Runtime, ID: b.ID, Namespace: b.Namespace, Name: b.Name, SharesName: true}
}

// statusOf is a container that healthd leaves alone as status --all shows it. In brief it has a few of many specs.
func statusOf(b api.Bystander, brief bool) api.Status {
	const most = 3
	why := b.Why
	if more := len(why) - most; brief && more > 1 {
		why = append(slices.Clone(why[:most]), fmt.Sprintf("and %d more specs: healthd explain tells of them", more))
	}
	return api.Status{
		Name: b.Name, ID: b.ID, Runtime: b.Runtime, Namespace: b.Namespace, Image: b.Image, Conditions: []api.Condition{}, Probes: map[string]api.ProbeStatus{}, Warnings: []string{},
		Unsupervised: strings.Join(why, "; "),
	}
}

// explainOther explains a container that is not supervised. Of a name that no engine knows, it
// suggests similar ones of all their containers. refused is what the daemon answered.
func (a *app) explainOther(ctx context.Context, c *client, name string, refused error) error {
	if text := c.membersText(ctx, name); text != "" {
		return fmt.Errorf("cannot explain %s: %s", name, text)
	}
	u, err := c.unsupervised(ctx)
	if err != nil {
		return errors.Join(c.requestError(ctx, "explain", name, refused), err)
	}
	b, err := pick("explain", u, name, func() []string { return c.names(ctx) })
	if err != nil {
		return err
	}
	return a.explainBystander(b, notesOf(u))
}

// notesOf says what may be missing in u.
func notesOf(u api.Unsupervised) []string {
	notes := slices.Clone(u.Notes)
	for _, away := range u.Away {
		notes = append(notes, "the containers of an engine are not known: "+away)
	}
	return notes
}

// pick returns the container of u that a name means. The error suggests similar names, also of the others that
// there are.
func pick(doWhat string, u api.Unsupervised, name string, others func() []string) (*api.Bystander, error) {
	b, candidates := findBystander(u.Containers, name)
	switch {
	case b != nil:
		return b, nil
	case len(candidates) > 0:
		return nil, fmt.Errorf("cannot %s %s: several containers have that name: %s", doWhat, name, strings.Join(candidates, ", "))
	}
	text := "no container has that name or ID"
	if notes := notesOf(u); len(notes) > 0 {
		text += " (" + line(strings.Join(notes, "; ")) + ")"
	}
	var all []api.Status
	for _, b := range u.Containers {
		all = append(all, statusOf(b, true))
	}
	return nil, fmt.Errorf("cannot %s %s: %s%s", doWhat, name, text, didYouMean(name, append(others(), namesOf(all)...)))
}

// explainBystander is healthd explain of a container that healthd leaves alone.
func (a *app) explainBystander(b *api.Bystander, notes []string) error {
	p := &page{columns: a.columns()}
	p.WriteString(line(b.Name) + " is not supervised: healthd leaves it alone\n")
	p.field("runtime", "%s, %s", line(b.Runtime), line(b.ID))
	p.field("image", "%s", orDash(line(b.Image)))
	p.field("state", "%s", orDash(b.State))
	for _, note := range notes {
		p.field("note", "%s", line(note))
	}
	p.WriteString("Why:\n")
	for _, why := range b.Why {
		p.write("  ", line(why), 4)
	}
	if !slices.Contains(b.Why, notTakenIn) && !slices.Contains(b.Why, configs.WhySelf) {
		p.write("Next: ", nextOf(b), 6)
	}
	_, err := a.stdout.Write([]byte(p.String()))
	return err
}

// nextOf says how to have healthd supervise the container. Engines take new labels only with a new container.
func nextOf(b *api.Bystander) string {
	if slices.ContainsFunc(b.Why, func(why string) bool { return strings.HasPrefix(why, "it has the label healthd.enable=") }) {
		return "make it anew without the label healthd.enable"
	}
	if slices.ContainsFunc(b.Why, func(why string) bool { return strings.HasPrefix(why, "docker compose run made it") }) {
		return "if it shall be supervised, make it anew with docker compose run -l healthd.enable=true"
	}
	return "make it anew with a label such as healthd.enable=true; or write a [[spec]] that matches it, and run healthd reload"
}
