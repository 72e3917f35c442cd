package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"healthd/runtime"
)

// statusSlack widens the bounds of a status text, for the difference between the
// engine's clock and healthd's and for the time that the list takes.
const statusSlack = 2 * time.Second

// List returns all containers of the engine, running or not.
func (e *Engine) List(ctx context.Context) ([]runtime.Summary, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	c, err := e.client(ctx)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	resp, err := e.do(ctx, c, http.MethodGet, "/containers/json?all=1", nil)
	if err != nil {
		return nil, fmt.Errorf("cannot list containers: %w", e.explain(err))
	}
	defer resp.Body.Close()
	listed, err := readList(resp.Body, &e.labels)
	if err != nil {
		return nil, fmt.Errorf("cannot list containers: %w", e.explain(err))
	}
	e.labels.prune(listed)
	e.tellClipped(listed)
	return summarize(listed, began, time.Now()), nil
}

// tellClipped logs that there are containers of which healthd does not know all labels, when there are more than before.
func (e *Engine) tellClipped(all []listed) {
	var names []string
	for i := range all {
		if _, clipped := all[i].Labels[runtime.LabelsClipped]; clipped {
			names = append(names, nameOf(all[i].Names))
		}
	}
	if n := int64(len(names)); n > e.clipped.Swap(n) {
		e.log.Warn("labels of containers are too large: healthd supervises none of them",
			zap.Int64("containers", n), zap.Int("bytes_read_of_each", runtime.MaxLabels), zap.Strings("among_them", names[:min(n, 5)]))
	}
}

// listed is what healthd reads of a container in a list.
type listed struct {
	ID              string `json:"Id"`
	Names           []string
	Image           string
	Labels          map[string]string
	State           string
	Status          string
	Ports           listedPorts
	HostConfig      struct{ NetworkMode string }
	NetworkSettings struct {
		Networks map[string]endpoint // nil when endpoints are read
	}
	endpoints []runtime.NetworkAddress
}

var errNoList = errors.New("the engine's answer is no list of containers")

// readList reads one container after the other: the text of many is larger than all that healthd knows
// of them.
func readList(body io.Reader, known *knownLabels) ([]listed, error) {
	d := json.NewDecoder(body)
	switch begin, err := d.Token(); {
	case isSyntax(err):
		return nil, errNoList
	case err != nil:
		return nil, err
	case begin != json.Delim('['):
		return nil, errNoList
	}
	var all []listed
	for d.More() {
		var l listed
		if err := d.Decode(&l); err != nil {
			return nil, fmt.Errorf("cannot read the engine's answer: %w", err)
		}
		if l.ID == "" || l.State == "" {
			return nil, errNoList
		}
		l.ID, l.Labels = known.share(l.ID, l.Labels)
		l.endpoints, l.NetworkSettings.Networks = addressesOf(l.NetworkSettings.Networks), nil
		l.Image, l.HostConfig.NetworkMode = runtime.Shared(l.Image), runtime.Shared(l.HostConfig.NetworkMode)
		all = append(all, l)
	}
	if _, err := d.Token(); err != nil { // it was cut off
		return nil, fmt.Errorf("cannot read the engine's answer: %w", err)
	}
	return all, nil
}

// isSyntax says that an answer is empty or no JSON.
func isSyntax(err error) bool {
	var syntax *json.SyntaxError
	return errors.As(err, &syntax) || err == io.EOF
}

// summarize turns a list that was made between the two moments into summaries.
func summarize(all []listed, from, to time.Time) []runtime.Summary {
	byName := make(map[string]*listed, 2*len(all))
	for i := range all {
		byName[all[i].ID] = &all[i]
		byName[nameOf(all[i].Names)] = &all[i]
	}
	summaries := make([]runtime.Summary, len(all))
	for i := range all {
		l := &all[i]
		s := runtime.Summary{ID: l.ID, Name: nameOf(l.Names), Image: l.Image, Labels: l.Labels, State: stateOf(l.State)}
		st := parseStatus(l.Status)
		s.Fingerprint = fingerprint(s.State, st.exitCode, listedNetworking(l, byName, maxNetworkDepth))
		if st.known {
			s.EarliestChange, s.LatestChange = from.Add(-st.maxAge-statusSlack), to.Add(-st.minAge+statusSlack)
		}
		summaries[i] = s
	}
	return summaries
}

// listedNetworking returns how a listed container is connected. It follows shared
// networks, at most depth times.
func listedNetworking(l *listed, byName map[string]*listed, depth int) networking {
	n := networking{mode: l.HostConfig.NetworkMode, alive: stateOf(l.State).Alive(), endpoints: l.endpoints, ports: l.Ports}
	other, ok := strings.CutPrefix(n.mode, "container:")
	if !ok {
		return n
	}
	if o := byName[other]; o != nil && depth > 0 {
		shared := listedNetworking(o, byName, depth-1)
		n.shared, n.sharedID = &shared, o.ID
	}
	return n
}

// nameOf returns the name without its slash. Legacy links add names with two slashes.
func nameOf(names []string) string {
	for _, name := range names {
		if name = strings.TrimPrefix(name, "/"); !strings.Contains(name, "/") {
			return name
		}
	}
	return ""
}

// statusAge is what a status text says: how long ago the container started, or ended
// with exitCode.
type statusAge struct {
	known          bool
	minAge, maxAge time.Duration
	exitCode       int
}

// parseStatus parses "Up 5 minutes (healthy)", "Exited (1) 3 seconds ago" and
// "Restarting (1) 2 seconds ago".
func parseStatus(text string) statusAge {
	if up, ok := strings.CutPrefix(text, "Up "); ok {
		up, _, _ = strings.Cut(up, " (")
		return parseAge(up)
	}
	for _, prefix := range []string{"Exited (", "Restarting ("} {
		rest, ok := strings.CutPrefix(text, prefix)
		if !ok {
			continue
		}
		code, ago, ok := strings.Cut(rest, ")")
		n, err := strconv.Atoi(code)
		if !ok || err != nil {
			return statusAge{}
		}
		s := parseAge(strings.TrimSpace(ago))
		s.exitCode = n
		return s
	}
	return statusAge{}
}

// parseAge is the inverse of go-units' HumanDuration, which all engines use.
func parseAge(text string) statusAge {
	text = strings.TrimSuffix(text, " ago")
	switch text {
	case "Less than a second":
		return statusAge{known: true, maxAge: time.Second}
	case "About a minute":
		return statusAge{known: true, minAge: time.Minute, maxAge: 2 * time.Minute}
	case "About an hour":
		return statusAge{known: true, minAge: time.Hour, maxAge: 2 * time.Hour}
	}
	number, unit, ok := strings.Cut(text, " ")
	n, err := strconv.Atoi(number)
	if !ok || err != nil || n < 0 {
		return statusAge{}
	}
	const day = 24 * time.Hour
	size, ok := map[string]time.Duration{
		"second": time.Second, "minute": time.Minute, "hour": time.Hour,
		"day": day, "week": 7 * day, "month": 30 * day, "year": 365 * day,
	}[strings.TrimSuffix(unit, "s")]
	if !ok || n > 200 {
		return statusAge{}
	}
	s := statusAge{known: true, minAge: time.Duration(n) * size, maxAge: time.Duration(n+1) * size}
	if size >= time.Hour {
		// Hours are rounded, and the larger units are made from them.
		s.minAge = max(0, s.minAge-time.Hour/2)
		s.maxAge += time.Hour / 2
	}
	return s
}
