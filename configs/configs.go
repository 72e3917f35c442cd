// Package configs turns TOML files and container labels into specs, every value
// with its origin, and says everything that is wrong with them at once. What the
// specs mean is left to the supervisor.
//
// It reads TOML with github.com/BurntSushi/toml. That library tells the line of an
// error but not those of keys and values, which locate.go finds. The commands in labels
// are read with github.com/kballard/go-shellquote, which splits words exactly as a
// POSIX shell does and can do nothing else.
package configs

import (
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"healthd/supervisor/core"
)

// Config is a configuration without problems. After Load only KeepDrains changes it, before anybody else has it.
type Config struct {
	Runtimes []Runtime // none only with Fleet
	Listen   Listen
	State    State
	Daemon   Daemon
	Log      Log
	Guard    core.Guard
	HAProxy  HAProxy
	Notify   []Notify
	Fleet    *Fleet // nil: the host is alone

	PublishFiles []PublishFile

	// Files is how many files it was read from; 0 when there are none at the default places.
	Files int

	// Observe is Spec.Observe of every container (daemon.mode).
	Observe bool

	mode         place // where Observe was written
	controlGroup place // where Listen.ControlGroup was written

	outlets  []*outlet
	traefik  bool // there is a [traefik]
	dnsDrain time.Duration
	labels   labelRules
	defaults *node       // nil: none
	specs    []*fileSpec // in file order
	drafts   *drafts
	certs    []*node // cert_file of handlers
}

// Runtime is one engine to watch.
type Runtime struct {
	Name     string // "docker"; of another one of its type "docker-2"
	Type     string // "docker" or "containerd"
	Endpoint string // empty: of Docker, what DOCKER_HOST and its TLS variables say; of containerd never
	Relist   time.Duration
	// Namespaces are those of containerd whose containers healthd looks at; nil for Docker.
	Namespaces []string
	// Exclusive: no other healthd of this host may supervise containers of it.
	Exclusive bool
}

// Listen says where to listen. HTTP, Agent and DNS may be empty, for off.
type Listen struct {
	HTTP    string // host:port
	Agent   string // host:port
	Control string // absolute path
	// Hosts are further names by which an HTTP listener on a loopback address is called.
	Hosts []string
	// ControlGroup is the group of Control, a name or a number; empty: the daemon's own.
	ControlGroup string
	DNS          string // host:port, of TCP and UDP
}

// Daemon says how the daemon runs.
type Daemon struct {
	Shutdown time.Duration // what a SIGTERM may take at most
}

// State says what outlives the daemon.
type State struct {
	Dir string // absolute path; empty: nothing is kept
}

// Log says what is logged, and how.
type Log struct {
	Level  string // debug, info, warn or error
	Format string // auto, console, json or journal
}

// HAProxy says where healthd pushes readiness to HAProxy.
type HAProxy struct {
	// Sockets are those of its Runtime API, as HAProxy writes them: "/PATH" or
	// "unix@/PATH", "ipv4@IP:PORT", "ipv6@[IP]:PORT". No two are the same. Without
	// any, healthd pushes nothing.
	Sockets []string
	// ChecksFrom are the addresses whose X-Haproxy-Server-State counts.
	ChecksFrom []netip.Prefix
}

// DefaultPaths returns the paths that Load reads when it is given none.
func DefaultPaths() []string {
	return []string{"/etc/healthd/healthd.toml", "/etc/healthd/conf.d"}
}

// Load reads files, and directories of *.toml files in the order of their names,
// as one configuration. Without paths it reads those of DefaultPaths that exist:
// labels alone can configure containers. A configuration that is wrong is an
// error of type Problems.
func Load(paths []string) (*Config, error) {
	l := newLoader()
	l.load(paths)
	return l.config()
}

// Parse is Load for one file that was already read.
func Parse(file string, data []byte) (*Config, error) {
	l := newLoader()
	l.add(file, data)
	return l.config()
}

// loader joins files.
type loader struct {
	files      int
	incomplete bool // a file could not be read: what seems to be missing may be in it
	tolerant   bool // take what a broken file has before the place where it is broken
	runtimes   []*node
	noRuntimes *node // runtime = []; nil: nobody has written that
	notifies   []*node
	publishes  []*node
	specs      []*node
	sections   map[string]*node // by their key
	pems       map[string]*pemFile
	certs      []*node // see Config
	problems   Problems
}

func newLoader() *loader { return &loader{sections: map[string]*node{}, pems: map[string]*pemFile{}} }

// sectionKeys are the tables that all files share.
func sectionKeys() []string {
	return []string{"listen", "state", "log", "guard", "haproxy", "dns", "traefik", fleetSection, "labels", "daemon", "defaults"}
}

func (l *loader) load(paths []string) {
	optional := len(paths) == 0
	if optional {
		paths = DefaultPaths()
	}
	for _, path := range paths {
		l.path(path, optional)
	}
}

func (l *loader) path(path string, optional bool) {
	files := []string{path}
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		files, err = TOMLFiles(path)
	}
	if optional && errors.Is(err, fs.ErrNotExist) {
		return
	}
	for _, file := range files {
		var data []byte
		if err == nil {
			data, err = readFile(file)
		}
		if err != nil {
			l.unreadable(file, err)
			err = nil
			continue
		}
		l.add(file, data)
	}
}

func (l *loader) unreadable(file string, err error) {
	if wrapped, ok := errors.AsType[*fs.PathError](err); ok {
		err = wrapped.Err
	}
	l.files++
	l.incomplete = true
	l.problems = append(l.problems, place{file: file, order: l.files}.problem("", "cannot be read: %v", err))
}

// TOMLFiles returns the files that Load reads of a directory: what a shell makes of dir/*.toml. With an
// error it returns dir itself.
func TOMLFiles(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return []string{dir}, err
	}
	var files []string
	for _, e := range entries {
		if !e.IsDir() && strings.HasSuffix(e.Name(), ".toml") && !strings.HasPrefix(e.Name(), ".") {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	return files, nil
}

// add joins one file to those before it.
func (l *loader) add(file string, data []byte) {
	l.files++
	at := place{file: file, order: l.files}
	root, err := parseTOML(at, data)
	if problems, ok := errors.AsType[Problems](err); ok {
		l.incomplete = true
		l.problems = append(l.problems, problems...)
		if !l.tolerant {
			return
		}
		root = locate(at, string(data)).root
	}
	if !l.tolerant {
		l.readPEMs(root)
	}
	for _, key := range root.keys() {
		n := root.fields[key]
		switch {
		case key == "runtime" && n.kind == arrayKind && len(n.items) == 0:
			l.noRuntimes = n
		case key == "runtime":
			l.runtimes = append(l.runtimes, l.tables(key, n)...)
		case key == "notify":
			l.notifies = append(l.notifies, l.tables(key, n)...)
		case key == "publish_file":
			l.publishes = append(l.publishes, l.tables(key, n)...)
		case key == "spec":
			l.specs = append(l.specs, l.tables(key, n)...)
		case slices.Contains(sectionKeys(), key):
			l.sections[key] = l.join(key, l.sections[key], n)
		default:
			known := append(sectionKeys(), "runtime", "spec", "notify", "publish_file")
			l.wrong(n, showKey(key), "unknown key%s", didYouMean(key, known))
		}
	}
}

func (l *loader) wrong(n *node, path, format string, args ...any) {
	l.problems = append(l.problems, n.at.problem(path, format, args...))
}

// tables returns the elements of an array of tables.
func (l *loader) tables(key string, n *node) []*node {
	if n.kind != arrayKind {
		l.wrong(n, key, "must be an array of tables, is %s: write [[%s]]", n.describe(), key)
		return nil
	}
	return slices.DeleteFunc(n.items, func(item *node) bool {
		if item.kind != tableKind {
			l.wrong(item, key, "must be an array of tables, has %s", item.describe())
		}
		return item.kind != tableKind
	})
}

// join adds the keys of n to those that earlier files have set in the table key.
func (l *loader) join(key string, earlier, n *node) *node {
	if n.kind != tableKind {
		l.wrong(n, key, "must be a table, is %s", n.describe())
		return earlier
	}
	if earlier == nil {
		return n
	}
	for _, k := range n.keys() {
		if first := earlier.fields[k]; first != nil {
			l.wrong(n.fields[k], key+"."+showKey(k), "is already set at %s", first.at)
			continue
		}
		earlier.fields[k] = n.fields[k]
	}
	return earlier
}

// config checks everything that was read.
func (l *loader) config() (*Config, error) {
	c := &Config{Files: l.files, defaults: l.sections["defaults"], drafts: &drafts{}, certs: l.certs}
	l.problems = append(l.problems, readDaemon(c, l)...)
	notifies, problems := readNotifies(l.notifies)
	c.Notify = notifies
	l.problems = append(l.problems, problems...)
	publishes, problems := readPublishFiles(l.publishes)
	c.PublishFiles = publishes
	for i := range publishes {
		c.outlets = append(c.outlets, publishes[i].outlet())
	}
	l.problems = append(l.problems, problems...)
	l.checkDefaults(c.defaults)
	places := map[string]place{}
	for i, n := range l.specs {
		s, problems := readFileSpec(n, i+1)
		l.problems = append(l.problems, problems...)
		if first, ok := places[s.name]; ok && s.name != "" {
			l.wrong(n.fields["name"], s.prefix()+"name", "is already the name of the spec at %s", first)
		} else {
			places[s.name] = n.at
		}
		c.specs = append(c.specs, s)
	}
	l.stack(c.specs, c.defaults)
	l.checkSpecs(c.specs)
	if len(l.problems) > 0 {
		l.problems.sort()
		return nil, l.problems
	}
	return c, nil
}

// SpecNames returns the names of the specs, in file order.
func (c *Config) SpecNames() []string {
	names := make([]string, len(c.specs))
	for i, s := range c.specs {
		names[i] = s.name
	}
	return names
}

// readFile reads a regular file. It refuses a pipe, whose reader would wait for ever.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "read", Path: path, Err: errors.New("not a regular file")}
	}
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}
