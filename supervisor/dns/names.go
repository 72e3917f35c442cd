package dns

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"healthd/supervisor"
)

// zone is the only one of which healthd knows something.
const zone = "healthd."

const (
	// maxName is the length of the longest name of a service. Then the names of its containers fit into one, and a
	// record of one of them into the smallest answer that clients take, behind the question for _NAME._tcp.
	maxName     = 200
	labelLength = 63
	// fullLength is the length of the longest name that DNS has, with the dot at its end.
	fullLength = 254
	// shortID is as much of an ID as engines show.
	shortID = 12
)

// nameOf returns a service's DNS name, in lower case: that of shop/web is web.shop.healthd. It has none if it has other
// characters than names in DNS have, or is too long; wrong says so. What labels say may be a name in the own project,
// or one without dots: with a dot, or with capitals, it would be that of a service in another project. Compose gives
// projects neither.
func nameOf(s *supervisor.Service) (name, wrong string) {
	name = s.Name
	project, part, found := strings.Cut(s.Name, "/")
	if found {
		name = part + "." + project
	} else {
		project = name
	}
	if strings.ContainsFunc(project, func(r rune) bool { return r == '.' || found && r >= 'A' && r <= 'Z' }) && !s.Owned {
		return "", "as in DNS its name is one of another project, it must be publish.service in a file"
	}
	tooLong := len(name)+1+len(zone) > maxName
	for label := range strings.SplitSeq(name, ".") {
		if tooLong || !isLabel(label) {
			return "", fmt.Sprintf("a name there has letters, digits, - and _, at most %d between two dots and %d in all", labelLength, maxName)
		}
	}
	return strings.ToLower(name) + "." + zone, ""
}

// shortNameOf returns the name without the project; empty: it has none. A service with a dot in its name has none,
// either: that would be the name of a service in another project.
func shortNameOf(service string) string {
	project, part, _ := strings.Cut(service, "/")
	if part == "" || project == "" || strings.Contains(part, ".") {
		return ""
	}
	return strings.ToLower(part) + "." + zone
}

func isLabel(s string) bool {
	for _, c := range []byte(s) {
		if c != '-' && c != '_' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return s != "" && len(s) <= labelLength
}

// labelTry is a label by which a container may be known below its service.
type labelTry func(*supervisor.Endpoint) string

// labelTries are what a container is known by: its name if that can be a label and no other has it, else its ID. That of
// another host has the host before its name, whoever else is there: its name must not become another one when a
// container comes.
var labelTries = []labelTry{
	func(e *supervisor.Endpoint) string {
		if e.Host == "" {
			return e.Container
		}
		return strings.ReplaceAll(e.Host, ".", "-") + "-" + strings.TrimPrefix(e.Container, e.Host+":")
	},
	func(e *supervisor.Endpoint) string {
		id := e.ID[strings.LastIndexAny(e.ID, ":/")+1:] // the engine's own
		return id[:min(len(id), shortID)]
	},
	func(e *supervisor.Endpoint) string {
		sum := sha256.Sum256([]byte(e.ID))
		return "c" + hex.EncodeToString(sum[:8])
	},
}

// triesFor returns what the containers of a service may be known by. Below a service without a project, such as shop, the
// container web would have the name of shop/web, which may be away: only a file may mean that. Nobody chooses an ID.
func triesFor(s *supervisor.Service) []labelTry {
	if supervisor.Project(s.Name) == "" && !s.Owned {
		return labelTries[1:]
	}
	return labelTries
}

// isServiceLabel says whether s is _NAME, as it stands before _tcp, in lower case.
func isServiceLabel(s string) bool {
	name, found := strings.CutPrefix(s, "_")
	return found && isLabel(name) && !strings.Contains(name, "_")
}
