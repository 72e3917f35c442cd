package configs

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// PublishFile is a file that healthd writes for those who send traffic: which members of services are ready.
type PublishFile struct {
	Template string   // one of ShippedTemplates, or the absolute path of a template
	Path     string   // absolute and clean; no two are the same
	Services []string // patterns; nil: all
	Check    []string // nil: none
	Reload   []string // nil: none

	MinInterval time.Duration // between a write and the next that takes nobody out
	Timeout     time.Duration // of Check and Reload each
	Drain       time.Duration // from the end of Reload to the last new request to a member that is out, at worst

	place     place // of its template
	pathPlace place
	number    int // from 1
}

// Covers says whether the file has that service. A pattern without a slash also fits the last part of its name.
func (f *PublishFile) Covers(service string) bool {
	return service != "" && (f.Services == nil || namesService(f.Services, service))
}

// Own says that the template is a file of the operator's.
func (f *PublishFile) Own() bool { return filepath.IsAbs(f.Template) }

// TemplateProblem returns a problem with the template, such as of its text, which is not read here.
func (f *PublishFile) TemplateProblem(text string) Problem {
	return f.place.problem(f.prefix()+"template", "%s", text)
}

// PathProblem returns a problem with the path, of which text says what it is.
func (f *PublishFile) PathProblem(text string) Problem {
	return f.pathPlace.problem(f.prefix()+"path", "%s", text)
}

// outlet is what the drains of the file's services wait for: until it is in place and read, and for its readers' last
// requests. Nothing waits for a file without a drain: its readers send no traffic.
func (f *PublishFile) outlet() *outlet {
	within := time.Second // for the writing
	for _, command := range [][]string{f.Check, f.Reload} {
		if command != nil {
			within += 2 * f.Timeout // those of an earlier change may have just begun
		}
	}
	if f.Drain == 0 {
		within = 0
	}
	return newOutlet("[[publish_file]]", f.place, f.Covers, f.Drain, within)
}

func (f *PublishFile) prefix() string { return numbered(publishFileSection, f.number) }

// candidateWord stands in an argument of check for the path of the file to be.
const candidateWord = "{candidate}"

const (
	publishFileSection = "publish_file"

	maxPublishFiles = 64

	defaultCommand = 10 * time.Second
)

// shippedTemplate is a template that healthd ships, with the defaults of a file that it makes: what was measured of
// each balancer.
type shippedTemplate struct {
	name               string
	minInterval, drain time.Duration
}

// shippedTemplates are in the order in which people are told of them. nginx and Caddy lose a request or a WebSocket with
// each reload. Traefik and Prometheus gather by themselves.
var shippedTemplates = []shippedTemplate{
	{"nginx", time.Second, time.Second},
	{"caddy", time.Second, 500 * time.Millisecond},
	{"traefik", 0, 2500 * time.Millisecond},
	{"envoy", 0, time.Second},
	{"prometheus", 5 * time.Second, 0},
	{"haproxy-map", 0, time.Second},
}

// ShippedTemplates returns the names of the templates that healthd ships.
func ShippedTemplates() []string {
	var names []string
	for _, t := range shippedTemplates {
		names = append(names, t.name)
	}
	return names
}

// defaultsOf returns the defaults of a file. Nobody knows how fast the reader of an own template is: with a reload
// it is taken for one like nginx, without for one that watches the file.
func defaultsOf(template string, reload bool) shippedTemplate {
	if i := slices.Index(ShippedTemplates(), template); i >= 0 {
		return shippedTemplates[i]
	}
	if reload {
		return shippedTemplate{template, time.Second, time.Second}
	}
	return shippedTemplate{template, time.Second, 2500 * time.Millisecond}
}

// readPublishFiles reads all [[publish_file]].
func readPublishFiles(nodes []*node) ([]PublishFile, Problems) {
	l := listReader{section: publishFileSection, most: maxPublishFiles, key: "path", twice: "is also the path of the publish_file at %s"}
	var all []PublishFile
	problems := l.read(nodes, func(t *table, number int) string {
		f := PublishFile{number: number}
		f.read(t)
		all = append(all, f)
		return f.Path
	})
	return all, problems
}

func (f *PublishFile) read(t *table) {
	if !t.missing("template") {
		f.Template, f.place = t.template("template"), t.n.fields["template"].at
	}
	if !t.missing("path") {
		f.Path = filepath.Clean(t.text("path", "", checkTarget))
		f.pathPlace = t.n.fields["path"].at
		if f.Path == "." { // which is reported
			f.Path = ""
		}
	}
	f.Services = t.distinct("services", "services", maxFilters, checkNotEmpty, sameText)
	if n := t.take("services"); n != nil && n.kind == arrayKind && len(n.items) == 0 {
		t.wrong(n, t.at("services"), "must not be empty: the file would have no service")
	}
	f.Check, f.Reload = t.optionalCommand("check"), t.optionalCommand("reload")
	for i, word := range f.Reload {
		if strings.Contains(word, candidateWord) {
			t.wrong(t.n.fields["reload"].items[i], t.at("reload")+index(i), "must not have %s: only check runs before the file is in place", candidateWord)
		}
	}
	otherwise := defaultsOf(f.Template, len(f.Reload) > 0)
	f.MinInterval = t.duration("min_interval", otherwise.minInterval, span[time.Duration]{0, time.Hour})
	f.Timeout = t.duration("timeout", defaultCommand, span[time.Duration]{100 * time.Millisecond, 5 * time.Minute})
	f.Drain = t.duration("drain", otherwise.drain, span[time.Duration]{0, 10 * time.Minute})
	t.done()
}

// template reads the name of a shipped template, or a path.
func (t *table) template(key string) string {
	n := t.take(key)
	if n.textual() && !filepath.IsAbs(n.text) && !slices.Contains(ShippedTemplates(), n.text) {
		t.wrong(n, t.at(key), "must be %s, or the absolute path of a template, is %s%s",
			strings.Join(ShippedTemplates(), ", "), quote(n.text), didYouMean(n.text, ShippedTemplates()))
		return ""
	}
	return t.text(key, "", checkLine)
}

// optionalCommand reads a command that need not be there.
func (t *table) optionalCommand(key string) []string {
	if t.take(key) == nil {
		return nil
	}
	return t.command(key)
}

// checkTarget asks for the path of a file that can be replaced.
func checkTarget(s string) string {
	if !filepath.IsAbs(s) || checkLine(s) != "" {
		return "must be an absolute path"
	}
	info, err := os.Stat(s)
	switch {
	case strings.HasSuffix(s, "/") || err == nil && info.IsDir():
		return "must be the path of a file, not of a directory"
	case err == nil && !info.Mode().IsRegular():
		return "must be the path of a regular file"
	case errors.Is(err, syscall.ELOOP):
		return "leads to too many links"
	}
	return ""
}

// sharedNames says what becomes of a balancer that gets a name from its file which it has already: those who start containers choose
// the names of services.
var sharedNames = map[string]string{
	"nginx": "an upstream of any name, such as localhost or one that nginx has already: nginx then sends other requests there, or refuses its configuration",
	"caddy": "a snippet of any name, such as one that Caddy has already: Caddy then refuses its configuration",
}

// warnPublishFiles warns of files that nobody would read, and of those in which anybody can put any name.
func (c *Config) warnPublishFiles() Problems {
	var found Problems
	for i := range c.PublishFiles {
		f := &c.PublishFiles[i]
		reader := map[string]string{"nginx": "nginx reads", "haproxy-map": "HAProxy reads", "caddy": "Caddy, unless it runs with --watch, reads"}[f.Template]
		if reader != "" && f.Reload == nil {
			found = append(found, f.place.problem(f.prefix()+"reload", "is not set: %s the file only when it is reloaded", reader))
		}
		if names := sharedNames[f.Template]; names != "" && f.Services == nil {
			found = append(found, f.place.problem(f.prefix()+"services", "is not set: who may start containers can add %s", names))
		}
	}
	return found
}
