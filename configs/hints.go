package configs

import (
	"path"
	"slices"
	"strconv"
	"strings"
)

// What people write who know Docker, Compose, Swarm or Kubernetes better than healthd, and what to write
// instead. A hint is the end of a message; it is empty where there is nothing to say.

// keysOfOthers are keys that others have, by what healthd's own are called.
var keysOfOthers = map[string]string{
	"interval": `write "period"`, "start_interval": `write "period" of a startup probe`,
	"retries": `write "failure_threshold"`, "start_period": `write a startup probe, which the others wait for, or "initial_delay"`,
	"test": `write exec = { command = ["…"] }`, "cmd": `write exec = { command = ["…"] }`, "command": `write exec = { command = ["…"] }`,
	"disable": "leave the probe out", "healthcheck": `write "liveness", "readiness" or "startup"`,
	"livenessprobe": `write "liveness"`, "readinessprobe": `write "readiness"`, "startupprobe": `write "startup"`,
	"restart": `write "restart_policy"`, "labels": `write "match"`, "match_labels": `write "match"`, "matchlabels": `write "match"`, "selector": `write "match"`, "image": `write "match_image"`,
	"container": `write "match_name"`, "container_name": `write "match_name"`, "stop_grace_period": `write "termination_grace_period"`,
	"http": `write "http_get"`, "tcp": `write "tcp_socket"`, "url": `write "port" and "path"`, "host_header": `write "headers"`,
}

// unknownKey returns what follows "unknown key".
func (t *table) unknownKey(key string) string {
	near := didYouMean(key, t.known)
	if hint, ok := keysOfOthers[strings.ToLower(key)]; ok && (near == "" || t.knows(hint)) {
		return ": " + hint
	}
	if near != "" {
		return near
	}
	switch {
	case t.path != "" && t.inSpec && slices.Contains(specKeys(), key):
		if t.n.fields[key].at.fromLabel() {
			return ": write " + labelPrefix + key
		}
		return ": it is a key of [[spec]], so write it above the tables of the spec, such as [spec.liveness]"
	case t.path == "" && t.inSpec && slices.Contains(keysOfProbes(), key):
		return ": it is a key of a probe, so write it below [spec.liveness], [spec.readiness] or [spec.startup]"
	}
	return ""
}

// knows says whether the table itself has the key that a hint names: restart is near to restarts of
// give_up, and else it means restart_policy.
func (t *table) knows(hint string) bool {
	return slices.ContainsFunc(t.known, func(key string) bool { return strings.Contains(hint, strconv.Quote(key)) })
}

// specKeys returns the keys of a [[spec]].
func specKeys() []string {
	t := (&reader{partial: true, inSpec: true}).root(newTable(place{}))
	readSpecTable(t)
	return t.known
}

// keysOfProbes returns the keys of a probe.
func keysOfProbes() []string {
	t := (&reader{partial: true, inSpec: true}).root(newTable(place{}))
	(&specReader{reader: t.reader}).probe(t, 0)
	return t.known
}

// valuesOfOthers are words that others have for a value of healthd's.
var valuesOfOthers = map[string]string{
	"unless-stopped": "Always", "on-failure": "OnFailure", "no": "Never", "any": "Always", "none": "Never",
	"warning": "warn", "err": "error", "fatal": "error", "text": "console", "journald": "journal", "dry-run": "observe",
}

// insteadOf returns which of words was meant.
func insteadOf(written string, words []string) string {
	meant := valuesOfOthers[strings.ToLower(written)]
	for _, word := range words {
		if strings.EqualFold(word, written) {
			meant = word
		}
	}
	if !slices.Contains(words, meant) {
		return ""
	}
	return ": write " + quoteTOML(meant)
}

// tableInstead returns the table to write where a handler is a value: exec = "true".
func tableInstead(n *node, at string) string {
	handler := at[strings.LastIndexByte(at, '.')+1:]
	switch {
	case handler == "exec" && n.textual():
		return ": write exec = { command = " + commandInstead(n.text) + " }"
	case handler == "exec" && n.kind == arrayKind:
		return ": write exec = { command = [ … ] }"
	case slices.Contains([]string{"http_get", "tcp_socket", "grpc"}, handler) && n.kind == integerKind:
		return ": write " + handler + " = { port = " + shorten(n.text) + " }"
	case handler == "http_get" && n.textual():
		return `: write http_get = { port = 80, path = "/…" }`
	case handler == "engine_health":
		return ": write engine_health = {}"
	}
	return ""
}

// commandInstead returns a command line as the list to write for it.
func commandInstead(line string) string {
	words, err := shellWords(line)
	if err != nil || len(line) > maxShown || strings.ContainsAny(line, "|&;<>$`*?") {
		if len(line) > maxShown {
			line = "…"
		}
		return showWords([]string{"sh", "-c", line})
	}
	return showWords(words)
}

// dockerCommand says what is wrong with a command that begins as Docker writes it.
func dockerCommand(words []string) string {
	switch words[0] {
	case "CMD":
		return `must not begin with "CMD", which only Docker knows: leave it out`
	case "CMD-SHELL":
		return `must not begin with "CMD-SHELL", which only Docker knows: write ["sh", "-c", "…"]`
	case "NONE":
		return `must not be "NONE", which only Docker knows: leave the probe out`
	}
	return ""
}

// isShell says whether a program runs its words as a shell does.
func isShell(program string) bool {
	return slices.Contains([]string{"sh", "ash", "bash", "dash", "ksh", "zsh", "busybox", "env", "cmd", "powershell", "pwsh"}, path.Base(program))
}

// curlyQuote returns the typographic quote that s begins with, if any.
func curlyQuote(s string) string {
	for _, quote := range []string{"“", "”", "„", "‘", "’", "‚", "«", "»", "`", "´"} {
		if strings.HasPrefix(s, quote) {
			return quote
		}
	}
	return ""
}

// dotted returns the label that was meant by keys that TOML takes for tables in each other, and its value.
func dotted(key string, n *node) (label, value string) {
	for label = key; n.kind == tableKind && len(n.fields) == 1; {
		for next, field := range n.fields {
			label, n = label+"."+next, field
		}
	}
	return label, n.text
}
