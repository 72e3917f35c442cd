package docker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"

	"healthd/runtime"
)

// statusSlack is how far the engine's clock and ours may be apart, and how long
// the list may take to be made, before a status text counts as contradicting an
// inspection.
const statusSlack = 2 * time.Second

// List returns all containers of the engine.
func (e *Engine) List(ctx context.Context) ([]runtime.Summary, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	c, err := e.client(ctx)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	listed, err := c.ContainerList(ctx, container.ListOptions{All: true})
	if err != nil {
		return nil, fmt.Errorf("cannot list containers: %w", e.failure(err))
	}
	if listed == nil || slices.ContainsFunc(listed, func(l container.Summary) bool { return l.ID == "" || l.State == "" }) {
		return nil, errors.New("cannot list containers: the engine's answer is no list of containers")
	}
	return summarize(listed, began, time.Now()), nil
}

// summarize turns a list that was made between the two moments into summaries.
func summarize(listed []container.Summary, from, to time.Time) []runtime.Summary {
	byName := make(map[string]*container.Summary, 2*len(listed))
	for i := range listed {
		byName[listed[i].ID] = &listed[i]
		byName[nameOf(listed[i].Names)] = &listed[i]
	}
	all := make([]runtime.Summary, len(listed))
	for i, l := range listed {
		s := runtime.Summary{ID: l.ID, Name: nameOf(l.Names), Labels: l.Labels, State: runtime.State(l.State)}
		st := parseStatus(l.Status)
		s.Fingerprint = hint(s.State, st.exitCode, connection(&l, byName, maxShared))
		if st.known {
			s.EarliestChange, s.LatestChange = from.Add(-st.most-statusSlack), to.Add(-st.least+statusSlack)
		}
		all[i] = s
	}
	return all
}

// connection says how a listed container is connected, following those whose
// network it shares.
func connection(l *container.Summary, byName map[string]*container.Summary, depth int) networking {
	n := networking{mode: l.HostConfig.NetworkMode, alive: runtime.State(l.State).Alive()}
	if l.NetworkSettings != nil {
		n.endpoints = l.NetworkSettings.Networks
	}
	other, ok := strings.CutPrefix(n.mode, "container:")
	if !ok {
		return n
	}
	if o := byName[other]; o != nil && depth > 0 {
		shared := connection(o, byName, depth-1)
		n.shared, n.sharedID = &shared, o.ID
	}
	return n
}

// nameOf returns the name without slash. Legacy links add names with two.
func nameOf(names []string) string {
	for _, name := range names {
		if name = strings.TrimPrefix(name, "/"); !strings.Contains(name, "/") {
			return name
		}
	}
	return ""
}

// status is what the text of a list tells: how long ago the container started,
// or ended with exitCode.
type status struct {
	known       bool
	least, most time.Duration
	exitCode    int
}

// parseStatus reads "Up 5 minutes (healthy)", "Exited (1) 3 seconds ago" and
// "Restarting (1) 2 seconds ago".
func parseStatus(text string) status {
	if up, ok := strings.CutPrefix(text, "Up "); ok {
		up, _, _ = strings.Cut(up, " (")
		return age(up)
	}
	for _, prefix := range []string{"Exited (", "Restarting ("} {
		rest, ok := strings.CutPrefix(text, prefix)
		if !ok {
			continue
		}
		code, ago, ok := strings.Cut(rest, ")")
		n, err := strconv.Atoi(code)
		if !ok || err != nil {
			return status{}
		}
		s := age(strings.TrimSpace(ago))
		s.exitCode = n
		return s
	}
	return status{}
}

// age undoes go-units' HumanDuration, which all engines use.
func age(text string) status {
	text = strings.TrimSuffix(text, " ago")
	switch text {
	case "Less than a second":
		return status{known: true, most: time.Second}
	case "About a minute":
		return status{known: true, least: time.Minute, most: 2 * time.Minute}
	case "About an hour":
		return status{known: true, least: time.Hour, most: 2 * time.Hour}
	}
	number, unit, ok := strings.Cut(text, " ")
	n, err := strconv.Atoi(number)
	if !ok || err != nil || n < 0 {
		return status{}
	}
	const day = 24 * time.Hour
	size, ok := map[string]time.Duration{
		"second": time.Second, "minute": time.Minute, "hour": time.Hour,
		"day": day, "week": 7 * day, "month": 30 * day, "year": 365 * day,
	}[strings.TrimSuffix(unit, "s")]
	if !ok || n > 200 {
		return status{}
	}
	s := status{known: true, least: time.Duration(n) * size, most: time.Duration(n+1) * size}
	if size >= time.Hour {
		// Hours are rounded, and the larger units are made from them.
		s.least -= time.Hour / 2
		s.most += time.Hour / 2
	}
	return s
}
