package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"time"

	"github.com/docker/go-units"
)

const Year = 365 * 24 * time.Hour

// engineClock is the clock that an engine behind a proxy seems to have: the machine's own,
// which is never set, and an offset. A moment is always told with the offset of that moment,
// however the clock was set since: the start of a run identifies the run.
type engineClock struct {
	mu    sync.Mutex
	Steps []ClockStep // oldest first
}

// ClockStep is how far the clock is ahead of the machine's from a moment of the machine's on.
type ClockStep struct {
	From   time.Time
	Offset time.Duration
}

// Set sets the clock that far ahead of the machine's.
func (c *engineClock) Set(offset time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Steps = append(c.Steps, ClockStep{time.Now(), offset})
}

// neverSet says that all times are the machine's.
func (c *engineClock) neverSet() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.Steps) == 0
}

func (c *engineClock) OffsetAt(t time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := len(c.Steps) - 1; i >= 0; i-- {
		if !t.Before(c.Steps[i].From) {
			return c.Steps[i].Offset
		}
	}
	return 0
}

// told returns what this clock showed at a moment of the machine's. The engine's "never"
// stays as it is.
func (c *engineClock) told(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.Add(c.OffsetAt(t))
}

func (c *engineClock) Now() time.Time { return c.told(time.Now()) }

// shift replaces a time in an answer by what the clock showed then.
func (c *engineClock) shift(in map[string]any, key string) {
	text, _ := in[key].(string)
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		in[key] = c.told(t).Format(time.RFC3339Nano)
	}
}

func (c *engineClock) shiftInspection(in map[string]any) {
	c.shift(in, "Created")
	state, _ := in["State"].(map[string]any)
	c.shift(state, "StartedAt")
	c.shift(state, "FinishedAt")
	health, _ := state["Health"].(map[string]any)
	log, _ := health["Log"].([]any)
	for _, entry := range log {
		result, _ := entry.(map[string]any)
		c.shift(result, "Start")
		c.shift(result, "End")
	}
}

// datedWriter tells the engine's time in the Date of each answer, the proxy's own, too.
type datedWriter struct {
	http.ResponseWriter
	clock *engineClock
	begun bool
}

func (w *datedWriter) WriteHeader(status int) {
	if status >= http.StatusOK {
		w.begun = true
		if !w.clock.neverSet() {
			w.Header().Set("Date", w.clock.Now().UTC().Format(http.TimeFormat))
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *datedWriter) Write(b []byte) (int, error) {
	if !w.begun {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(b)
}

func (w *datedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

var inspectCall = regexp.MustCompile(`^GET /containers/[^/]+/json$`)

// shiftAnswer replaces the times in an answer that has some. Event streams are not among them.
func (p *Proxy) shiftAnswer(answer *http.Response) error {
	if p.Clock.neverSet() || answer.StatusCode != http.StatusOK {
		return nil
	}
	switch call := CallOf(answer.Request); {
	case call == "GET /info":
		return rewriteBody(answer, func(info map[string]any) error {
			p.Clock.shift(info, "SystemTime")
			return nil
		})
	case call == "GET /containers/json":
		return rewriteBody(answer, func(all []map[string]any) error { return p.shiftList(answer.Request.Context(), all) })
	case inspectCall.MatchString(call):
		return rewriteBody(answer, func(in map[string]any) error {
			p.Clock.shiftInspection(in)
			return nil
		})
	}
	return nil
}

func rewriteBody[T any](answer *http.Response, change func(T) error) error {
	var v T
	d := json.NewDecoder(answer.Body)
	d.UseNumber()
	err := errors.Join(d.Decode(&v), answer.Body.Close())
	if err == nil {
		err = change(v)
	}
	if err != nil {
		return err
	}
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	answer.Body, answer.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	answer.Header.Set("Content-Length", strconv.Itoa(len(body)))
	return nil
}

// shiftList replaces the times in a list of containers. What changed since the list was made
// is told with its newer time, as by a list that was made a moment later.
func (p *Proxy) shiftList(ctx context.Context, all []map[string]any) error {
	now := time.Now()
	for _, l := range all {
		id, _ := l["Id"].(string)
		stored, err := p.storedContainer(ctx, id)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it is being removed, and its status has no age
		}
		if err != nil {
			return err
		}
		l["Created"] = p.Clock.told(stored.Created).Unix()
		status, _ := l["Status"].(string)
		l["Status"] = p.Clock.status(status, stored, now)
	}
	return nil
}

// storedContainer is what the engine keeps of a container on the disk.
type storedContainer struct {
	Created time.Time
	State   struct{ StartedAt, FinishedAt time.Time }
}

// storedContainer reads the times of a container from the engine's directory. A list has no
// times but ages, to a second or worse; and an inspection of a container that is being
// started waits, which a list must not.
func (p *Proxy) storedContainer(ctx context.Context, id string) (s storedContainer, err error) {
	root, err := p.engineRoot(ctx)
	if err != nil {
		return s, err
	}
	b, err := os.ReadFile(filepath.Join(root, "containers", id, "config.v2.json"))
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	if err == nil && s.Created.IsZero() {
		err = fmt.Errorf("the engine keeps no times of container %s", id)
	}
	return s, err
}

// engineRoot returns the engine's directory. It asks the engine once.
func (p *Proxy) engineRoot(ctx context.Context) (string, error) {
	p.mu.Lock()
	root := p.root
	p.mu.Unlock()
	if root != "" {
		return root, nil
	}
	answer, err := p.get(ctx, "/info")
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	var info struct{ DockerRootDir string }
	if err := json.NewDecoder(answer.Body).Decode(&info); err != nil {
		return "", err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.root = info.DockerRootDir
	return p.root, nil
}

// ageInStatus matches "Up 5 minutes (healthy)", "Exited (1) 3 seconds ago" and "Restarting
// (1) 2 seconds ago", with the age between the first and the last group.
var ageInStatus = regexp.MustCompile(`^(Up |(?:Exited|Restarting) \(-?\d+\) )(?:.+?)( ago| \(.+\))?$`)

// status returns the text with the age that the engine works out by its clock.
func (c *engineClock) status(text string, s storedContainer, now time.Time) string {
	m := ageInStatus.FindStringSubmatch(text)
	if m == nil {
		return text
	}
	since := s.State.FinishedAt
	if m[1] == "Up " {
		since = s.State.StartedAt
	}
	return m[1] + units.HumanDuration(c.told(now).Sub(c.told(since))) + m[2]
}
