package configs

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Notify is somebody who is told what is wrong. Exactly one of URL, Webhook and Command is set.
type Notify struct {
	Name    string
	URL     string // of shoutrrr: a secret as a whole
	Webhook string // http or https: a secret but for its scheme and host
	Command []string
	Secret  []byte // signs what the webhook gets; nil: nothing is signed

	Reasons   []string      // nil: those of all incidents
	Services  []string      // patterns; nil: all
	Projects  []string      // patterns; nil: all
	GroupWait time.Duration // how long more is gathered for one message
	Repeat    time.Duration // how often it is told of what lasts
	Timeout   time.Duration // of one attempt
	PerHour   int           // messages at most
}

// Wants says whether the receiver is told of that service and project; empty: of what has none. A pattern
// without a slash also fits the last part of a service.
func (n *Notify) Wants(service, project string) bool {
	return (n.Services == nil || service != "" && namesService(n.Services, service)) &&
		(n.Projects == nil || project != "" && slices.ContainsFunc(n.Projects, func(p string) bool { return glob(p, project) }))
}

// namesService says whether one of the patterns fits a service. One without a slash also fits the last part of its name.
func namesService(patterns []string, service string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		return glob(pattern, service) || !strings.Contains(pattern, "/") && glob(pattern, service[strings.LastIndexByte(service, '/')+1:])
	})
}

const (
	maxNotify     = 32
	maxFilters    = 100
	maxSecretFile = 64 << 10 // bytes

	defaultGroupWait = 10 * time.Second
	defaultRepeat    = 4 * time.Hour
	defaultAttempt   = 10 * time.Second
	defaultPerHour   = 20
)

// IncidentReasons returns the reasons that receivers are told of by default.
func IncidentReasons() []string {
	return []string{"GaveUp", "CrashLoop", "ServiceDown", "RuntimeLost", "JournalFailed"}
}

// EventReasons returns the reasons of all events of the history.
func EventReasons() []string {
	return []string{
		"Unhealthy", "ProbeWarning", "ProbeLate", "Killing", "BackOff", "Started", "Ready", "NotReady", "Exited", "OOMKilled", "OperatorStopped", "EngineGaveUp", "EngineRefused",
		"Invalid", "Held", "Resumed", "GroupLimit", "RestartBudget", "HostSuspect", "RuntimeLost", "RuntimeBack", "NetworkLost",
		"FailedPostStartHook", "FailedPreStopHook", "LifecycleHTTPFallback", "Reloaded", "ReloadFailed", "WouldRestart", "GaveUp",
		"ShutdownIncomplete", "JournalFailed", "JournalBack", "JournalDamaged", "HAProxyLost", "HAProxyBack", "HAProxyError",
		"HAProxyServer", "DNSError", "NotifyFailed", "NotifyBack", "FileFailed", "FileBack", "RecorderFailed", "ReportFailed", "ReportBack", "ReportDamaged",
		"FleetLost", "FleetBack", "FleetHostLost", "FleetHostBack", "FleetError",
	}
}

// readNotifies reads all [[notify]].
func readNotifies(nodes []*node) ([]Notify, Problems) {
	l := listReader{section: "notify", most: maxNotify, key: "name", twice: "is already the name of the notify at %s"}
	var all []Notify
	problems := l.read(nodes, func(t *table, _ int) string {
		n := readNotify(t)
		all = append(all, n)
		return n.Name
	})
	return all, problems
}

func readNotify(t *table) Notify {
	n := Notify{
		GroupWait: t.duration("group_wait", defaultGroupWait, span[time.Duration]{0, time.Hour}),
		Repeat:    t.duration("repeat", defaultRepeat, durations(time.Minute)),
		Timeout:   t.duration("timeout", defaultAttempt, span[time.Duration]{time.Second, 5 * time.Minute}),
		PerHour:   t.integer("max_per_hour", defaultPerHour, span[int]{2, 3600}),
		Reasons:   t.reasons("reasons"),
		Services:  t.distinct("services", "services", maxFilters, checkNotEmpty, sameText),
		Projects:  t.distinct("projects", "projects", maxFilters, checkNotEmpty, sameText),
	}
	for _, key := range []string{"reasons", "services", "projects"} {
		if f := t.take(key); f != nil && f.kind == arrayKind && len(f.items) == 0 {
			t.wrong(f, t.at(key), "must not be empty: the receiver would be told of nothing")
		}
	}
	if !t.missing("name") {
		n.Name = t.text("name", "", checkName)
	}
	t.exactlyOne([]string{"url", "url_file", "webhook", "command"}, func(key string) {
		switch key {
		case "url":
			n.URL = t.secretURL(key, checkChatURL)
		case "url_file":
			n.URL = t.urlFile(key)
		case "webhook":
			n.Webhook = t.secretURL(key, checkWebhook)
		case "command":
			n.Command = t.command(key)
		}
	})
	if file := t.take("secret_file"); file != nil {
		n.Secret = []byte(t.secretFile("secret_file"))
		if t.n.fields["webhook"] == nil {
			t.wrong(file, t.at("secret_file"), "needs webhook: it signs what that gets")
		}
	}
	t.done()
	return n
}

// reasonsOfOthers are what others call a reason.
var reasonsOfOthers = map[string]string{"CrashLoopBackOff": "CrashLoop", "OOM": "OOMKilled", "Down": "ServiceDown"}

// reasons reads the reasons of incidents and events.
func (t *table) reasons(key string) []string {
	all := t.distinct(key, "reasons", maxFilters, nil, sameText)
	known := append(IncidentReasons(), EventReasons()...)
	for i, reason := range all {
		if reason == "" || slices.Contains(known, reason) {
			continue
		}
		hint := didYouMean(reason, known)
		if meant := reasonsOfOthers[reason]; meant != "" {
			hint = ": write " + quoteTOML(meant)
		}
		t.wrong(t.n.fields[key].items[i], t.at(key)+index(i), "must be %s, or the reason of an event as healthd events shows it, is %s%s",
			strings.Join(IncidentReasons(), ", "), quote(reason), hint)
	}
	return all
}

// secretURL reads a URL of which no message may repeat anything.
func (t *table) secretURL(key string, check func(string) string) string {
	n := t.take(key)
	if !n.textual() {
		t.wrong(n, t.at(key), "must be a string")
		return ""
	}
	if wrong := check(n.text); wrong != "" {
		t.wrong(n, t.at(key), "%s", wrong)
		return ""
	}
	return n.text
}

func checkWebhook(s string) string {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return `must be an http or https URL such as "https://alerts.example/healthd" (it is a secret, so it is not shown here)`
	}
	return ""
}

func checkChatURL(s string) string {
	scheme, _, found := strings.Cut(s, "://")
	scheme, _, _ = strings.Cut(scheme, "+")
	scheme = strings.ToLower(scheme)
	switch {
	case !found || !isScheme(scheme):
		return `must be a URL of shoutrrr such as "slack://…" or "smtp://…" (it is a secret, so it is not shown here)`
	case scheme == "http" || scheme == "https":
		return "must be a URL of shoutrrr, is an " + scheme + " URL: write webhook, or generic+" + scheme + "://… for a plain text"
	case !slices.Contains(ChatSchemes(), scheme):
		return "has the unknown scheme " + quote(scheme) + didYouMean(scheme, ChatSchemes()) + ": shoutrrr knows " + strings.Join(ChatSchemes(), ", ")
	}
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return "is no valid URL: write %XX for special characters (it is a secret, so it is not shown here)"
	case !readsChatURL(*u):
		return "is no URL as shoutrrr wants it for " + scheme + ": https://shoutrrr.nickfedor.com/ says what it must have (it is a secret, so it is not shown here)"
	}
	return ""
}

// isScheme keeps out of messages what may be a secret before another one's "://".
func isScheme(s string) bool {
	return s != "" && len(s) <= 20 && !strings.ContainsFunc(s, func(r rune) bool { return r < 'a' || r > 'z' })
}

// urlFile reads the URL that a file has.
func (t *table) urlFile(key string) string {
	text := t.secretFile(key)
	if text == "" {
		return "" // which is reported
	}
	if wrong := checkChatURL(text); wrong != "" {
		t.wrong(t.n.fields[key], t.at(key), "the text in the file %s", wrong)
	}
	return text
}

// secretFile returns the text of a file without the line's end, and reports one that is empty.
func (t *table) secretFile(key string) string {
	n := t.take(key)
	name, ok := t.checked(n, t.at(key), checkSecretFile)
	if !ok {
		return ""
	}
	path, err := secretPath(name)
	var text string
	if err == nil {
		text, err = readSecret(path)
	}
	if err != nil {
		t.wrong(n, t.at(key), "%s cannot be read: %v", quote(name), err)
		return ""
	}
	if text == "" {
		t.wrong(n, t.at(key), "%s is empty", quote(name))
	}
	return text
}

// checkSecretFile takes an absolute path, or the name of a credential of systemd.
func checkSecretFile(s string) string {
	if filepath.IsAbs(s) && checkLine(s) == "" || checkName(s) == "" {
		return ""
	}
	return "must be an absolute path, or the name of a credential of systemd"
}

// unitCredentials is where systemd has the credentials of healthd while it runs: healthd check is asked by people and
// packages, to whom systemd gives none.
const unitCredentials = "/run/credentials/healthd.service"

func secretPath(name string) (string, error) {
	if filepath.IsAbs(name) {
		return name, nil
	}
	path := filepath.Join(cmp.Or(os.Getenv("CREDENTIALS_DIRECTORY"), unitCredentials), name)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("systemd has not given this credential: write LoadCredential=%s:PATH with systemctl edit healthd, then systemctl restart healthd, or name a file by its absolute path", name)
	}
	return path, nil
}

func readSecret(path string) (string, error) {
	text, err := func() (string, error) {
		info, err := os.Stat(path)
		if err != nil {
			return "", err
		}
		if !info.Mode().IsRegular() {
			return "", errors.New("not a regular file")
		}
		f, err := os.Open(path)
		if err != nil {
			return "", err
		}
		defer f.Close()
		text, err := io.ReadAll(io.LimitReader(f, maxSecretFile+1))
		if len(text) > maxSecretFile {
			return "", fmt.Errorf("it has more than %d bytes", maxSecretFile)
		}
		return string(text), err
	}()
	if wrapped, ok := errors.AsType[*fs.PathError](err); ok {
		err = wrapped.Err
	}
	return strings.TrimRight(text, "\r\n"), err
}
