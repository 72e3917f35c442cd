package files

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"text/template"
	"time"
)

// Bounds of a template and of what it makes. text/template cannot be interrupted: the guards that guard puts into the
// template end it.
const (
	maxTemplate = 1 << 20 // bytes
	maxContent  = 16 << 20
	maxSteps    = 1_000_000
	maxDepth    = 100 // templates that call each other
	renderTime  = 2 * time.Second
)

// Template makes the content of a file. It is for one goroutine at a time.
type Template struct {
	name, text string
	parsed     *template.Template
	steps      int        // at most
	run        *rendering // the one under way
}

// Data is what a template gets as its dot.
type Data struct {
	Services []*Service // what the function services returns, too
	Version  string     // another one when anything of the services is
}

// Parse reads a template. name stands in its errors, as NAME:LINE:COLUMN.
func Parse(name, text string) (*Template, error) {
	if len(text) > maxTemplate {
		return nil, fmt.Errorf("%s has more than %d bytes", name, maxTemplate)
	}
	t := &Template{name: name, text: text, steps: maxSteps, run: &rendering{}}
	parsed, err := template.New(name).Option("missingkey=error").Funcs(t.functions()).Parse(text)
	if err != nil {
		return nil, plainError(err)
	}
	t.parsed = parsed
	guard(parsed)
	return t, nil
}

// Same says whether two templates make the same of all.
func (t *Template) Same(other *Template) bool { return t.name == other.name && t.text == other.text }

// rendering is the state of one execution.
type rendering struct {
	from        *snapshot
	left, depth int // steps that are left; templates that are under way
	end         time.Time
}

// render returns the content. It ends in bounded time and memory, whatever the template says.
func (t *Template) render(from *snapshot) (_ []byte, err error) {
	*t.run = rendering{from: from, left: t.steps, end: time.Now().Add(renderTime)}
	defer func() { *t.run = rendering{} }()
	out := &boundedBuffer{}
	if err := t.parsed.Execute(out, Data{from.services, from.version()}); err != nil {
		return nil, plainError(err)
	}
	if len(bytes.TrimSpace(out.Bytes())) == 0 {
		return nil, fmt.Errorf("%s makes an empty file: let it have at least a comment", t.name)
	}
	return out.Bytes(), nil
}

// ofGuard is what text/template says of a call that guard has put in.
var ofGuard = regexp.MustCompile(` executing "[^"]*" at <_healthd_[a-z]+>: error calling _healthd_[a-z]+:`)

// plainError leaves out what text/template puts before the place, and what is not in the template.
func plainError(err error) error {
	return errors.New(ofGuard.ReplaceAllString(strings.TrimPrefix(err.Error(), "template: "), ""))
}

var (
	errTooLong = fmt.Errorf("it makes more than %d MB", maxContent>>20)
	errTooDeep = fmt.Errorf("templates call each other more than %d deep", maxDepth)
	errTooMuch = fmt.Errorf("it takes more than %d steps or %v: does it end?", maxSteps, renderTime)
)

// step takes a step. It is an error when there were too many.
func (r *rendering) step() error {
	const now = 1 << 10 // as often it looks at the clock
	if r.left--; r.left < 0 || r.left%now == 0 && time.Now().After(r.end) {
		return errTooMuch
	}
	return nil
}

func (r *rendering) enter() error {
	if r.depth++; r.depth > maxDepth {
		return errTooDeep
	}
	return r.step()
}

func (r *rendering) leave() { r.depth-- }

// boundedBuffer takes as much as a file may have.
type boundedBuffer struct{ bytes.Buffer }

// Write implements io.Writer.
func (b *boundedBuffer) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxContent {
		return 0, errTooLong
	}
	return b.Buffer.Write(p)
}

// WriteString implements io.StringWriter.
func (b *boundedBuffer) WriteString(s string) (int, error) {
	if b.Len()+len(s) > maxContent {
		return 0, errTooLong
	}
	return b.Buffer.WriteString(s)
}
