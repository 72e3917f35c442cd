package importer

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// healer is a program that restarts unhealthy containers, as it is set up.
type healer struct {
	tool  string // what people call it
	name  string // of its container or service; empty: it was not found, but containers have its label
	label string // of the containers that it heals, with the value true
	all   bool   // it heals every container

	interval  time.Duration // 0: it learns of unhealthy containers at once
	stop      time.Duration // how long it gives a container to end; negative: what it does by default
	threshold int           // how often it must find a container unhealthy
	guardian  bool          // it is Docker-Guardian, which takes more labels

	giveUp         int // restarts within giveUpWithin; 0: it never does
	giveUpWithin   time.Duration
	backoffMax     time.Duration // 0: as healthd's
	backoffReset   time.Duration // 0: as healthd's
	lost, remarked []string      // of its variables
}

// The images of healers.
const (
	imageAutoheal   = "autoheal"
	imageDeunhealth = "deunhealth"
	imageGuardian   = "docker-guardian"
)

// HealerImages returns the names of the images, without registry and tag, of the programs that restart unhealthy
// containers.
func HealerImages() []string {
	return []string{imageAutoheal, "docker-autoheal", imageDeunhealth, imageGuardian}
}

// ImageName returns the last part of an image's name: "autoheal" of "docker.io/willfarrell/autoheal:1.2".
func ImageName(image string) string {
	name := image[strings.LastIndexByte(image, '/')+1:]
	name, _, _ = strings.Cut(name, "@")
	name, _, _ = strings.Cut(name, ":")
	return strings.ToLower(name)
}

const (
	autohealLabel   = "autoheal"
	autohealAll     = "all"
	autohealTimeout = "autoheal.stop.timeout"
	autohealAction  = "autoheal.action"
	deunhealthLabel = "deunhealth.restart.on.unhealthy"
)

// What autoheal and Docker-Guardian do where nothing is set.
const (
	healInterval    = 5 * time.Second
	healStop        = 10 // seconds
	guardianBudget  = 5
	guardianWindow  = 300 // seconds
	guardianBackoff = 300
	guardianReset   = 600
)

func autohealByDefault() *healer {
	return &healer{tool: "autoheal", label: autohealLabel, interval: healInterval, stop: -1, threshold: 1}
}

func deunhealthByDefault() *healer {
	return &healer{tool: "deunhealth", label: deunhealthLabel, stop: -1, threshold: 1}
}

// healerOf returns what the container of that image does with these variables, nil if it is no healer. One that was
// built, or has another name, is known by its variables and the engine's socket.
func healerOf(name, image string, env map[string]string, hasSocket bool) *healer {
	var h *healer
	switch image := ImageName(image); {
	case !slices.Contains(HealerImages(), image) && !(hasSocket && hasAutohealVariable(env)):
		return nil
	case image == imageDeunhealth:
		h = deunhealthByDefault()
		h.name = name
		return h
	default:
		h = autohealByDefault()
		h.name, h.guardian = name, image == imageGuardian
	}
	v := variables{env: env, h: h}
	if label := env["AUTOHEAL_CONTAINER_LABEL"]; label == autohealAll {
		h.all = true
	} else if label != "" {
		h.label = label
	}
	h.interval = v.seconds("AUTOHEAL_INTERVAL", healInterval)
	if stop := v.count("AUTOHEAL_DEFAULT_STOP_TIMEOUT", healStop); stop != healStop {
		h.stop = time.Duration(stop) * time.Second
	}
	if v.changed("AUTOHEAL_START_PERIOD", "0") {
		h.remarked = append(h.remarked, "AUTOHEAL_START_PERIOD is not needed: while a HEALTHCHECK is starting, healthd's probe is Unknown, which does not count")
	}
	if v.changed("AUTOHEAL_ONLY_MONITOR_RUNNING", "false") {
		h.remarked = append(h.remarked, "AUTOHEAL_ONLY_MONITOR_RUNNING is not needed: healthd probes no container that is paused or restarting")
	}
	v.loses("POST_RESTART_SCRIPT", "a script is set: healthd runs none after a restart; follow healthd events instead (docs/api.md)")
	for _, name := range v.webhooks() {
		v.loses(name, "a webhook or another receiver of messages is set, which is a secret: write a [[notify]] (docs/notifications.md)")
	}
	if h.guardian {
		h.tool = "Docker-Guardian"
		v.readGuardian()
	}
	return h
}

func hasAutohealVariable(env map[string]string) bool {
	for name := range env {
		if strings.HasPrefix(name, "AUTOHEAL_") {
			return true
		}
	}
	return false
}

// variables reads those of a healer. What is not a number, or one of the words that are known, is not repeated: it
// may be a secret.
type variables struct {
	env map[string]string
	h   *healer
}

func (v variables) lost(format string) { v.h.lost = append(v.h.lost, format) }

func (v variables) changed(name, otherwise string) bool {
	value, ok := v.env[name]
	return ok && value != "" && value != otherwise
}

func (v variables) loses(name, why string) {
	if v.env[name] != "" {
		v.lost(name + ": " + why)
	}
}

// count reads a number.
func (v variables) count(name string, otherwise int) int {
	text, ok := v.env[name]
	if !ok || text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > math.MaxInt32 {
		v.lost(name + ": it is no number that healthd knows; its default counts here")
		return otherwise
	}
	return n
}

// seconds reads a number of seconds, or a duration as some of these programs take it.
func (v variables) seconds(name string, otherwise time.Duration) time.Duration {
	if d, err := time.ParseDuration(v.env[name]); err == nil && d > 0 {
		return d
	}
	if n := v.count(name, int(otherwise/time.Second)); n > 0 {
		return time.Duration(n) * time.Second
	}
	return otherwise
}

// webhooks returns the variables by which messages are sent.
func (v variables) webhooks() []string {
	var names []string
	for name := range v.env {
		if name == "WEBHOOK_URL" || name == "APPRISE_URL" || name == "AUTOHEAL_NOTIFICATION_GOTIFY_URL" || v.h.guardian && notifies(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// notifies says whether a variable names a receiver of Docker-Guardian's messages: one for each receiver.
func notifies(name string) bool {
	return slices.Contains([]string{
		"NOTIFY_GOTIFY_URL", "NOTIFY_DISCORD_WEBHOOK", "NOTIFY_SLACK_WEBHOOK", "NOTIFY_TELEGRAM_TOKEN", "NOTIFY_PUSHOVER_TOKEN",
		"NOTIFY_PUSHBULLET_TOKEN", "NOTIFY_LUNASEA_WEBHOOK", "NOTIFY_EMAIL_SMTP",
	}, name)
}

// readGuardian reads what Docker-Guardian adds to autoheal.
func (v variables) readGuardian() {
	h := v.h
	h.threshold = max(1, v.count("AUTOHEAL_UNHEALTHY_THRESHOLD", 1))
	h.giveUp = v.count("AUTOHEAL_RESTART_BUDGET", guardianBudget)
	h.giveUpWithin = time.Duration(v.count("AUTOHEAL_RESTART_WINDOW", guardianWindow)) * time.Second
	if n := v.count("AUTOHEAL_BACKOFF_MAX", guardianBackoff); n != guardianBackoff {
		h.backoffMax = time.Duration(n) * time.Second
	}
	if n := v.count("AUTOHEAL_BACKOFF_RESET_AFTER", guardianReset); n != guardianReset {
		h.backoffReset = time.Duration(n) * time.Second
	}
	if text := v.env["AUTOHEAL_BACKOFF_MULTIPLIER"]; text != "" {
		if f, err := strconv.ParseFloat(text, 64); err != nil || f != 2 {
			v.lost("AUTOHEAL_BACKOFF_MULTIPLIER: healthd's back-off always doubles; set backoff.initial and backoff.max")
		}
	}
	for _, lost := range []struct{ name, otherwise, why string }{
		{"AUTOHEAL_MONITOR_DEPENDENCIES", "true", "healthd always restarts what shares the network of a container that has a new run"},
		{"AUTOHEAL_DEPENDENCY_START_DELAY", "5", "healthd starts dependants at once, and backs off if they end"},
		{"AUTOHEAL_WATCHTOWER_COOLDOWN", "300", updaters},
		{"AUTOHEAL_WATCHTOWER_SCOPE", "all", updaters},
		{"AUTOHEAL_WATCHTOWER_EVENTS", "orchestration", updaters},
		{"AUTOHEAL_BACKUP_LABEL", "docker-volume-backup.stop-during-backup", backups},
		{"AUTOHEAL_BACKUP_CONTAINER", "", backups},
		{"AUTOHEAL_BACKUP_TIMEOUT", "600", backups},
	} {
		if v.changed(lost.name, lost.otherwise) {
			v.lost(lost.name + ": " + lost.why)
		}
	}
	if v.changed("AUTOHEAL_GRACE_PERIOD", "300") {
		h.remarked = append(h.remarked, "AUTOHEAL_GRACE_PERIOD is not needed: healthd knows by Docker's events who stopped a container, and leaves alone what an operator stopped")
	}
}

const (
	updaters = "healthd does not guess from events that an updater is at work; write healthd hold PROJECT --for 10m before an update"
	backups  = "healthd does not know of backups; it leaves alone what a backup stops, and healthd hold NAME keeps it from the rest"
)

// chooses says whether the healer looks after a container with these labels.
func (h *healer) chooses(labels map[string]string) bool {
	if h.guardian && (labels[autohealLabel] == "False" || labels[autohealAction] == "none") {
		return false
	}
	return h.all || labels[h.label] == "true"
}

// why says why the healer chooses a container or not.
func (h *healer) why(chosen bool) string {
	switch {
	case h.all:
		return h.tool + " heals every container"
	case chosen:
		return h.tool + " heals it, by the label " + h.label + "=true"
	}
	return h.tool + " does not heal it: it has no label " + h.label + "=true"
}
