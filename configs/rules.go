package configs

import (
	"net"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Each rule below returns "" for a valid text, and for another one what it must be.

const (
	maxName   = 253
	maxGate   = 63  // without the domain
	maxSocket = 107 // bytes of a unix socket's path
)

var (
	nameForm   = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]*$`)
	headerForm = regexp.MustCompile(`^[-A-Za-z0-9]+$`)
	hostForm   = regexp.MustCompile(`^[A-Za-z0-9_]([-A-Za-z0-9_]*[A-Za-z0-9_])?(\.[A-Za-z0-9_]([-A-Za-z0-9_]*[A-Za-z0-9_])?)*\.?$`)
	subdomain  = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	gateForm   = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`)
	proxyForm  = regexp.MustCompile(`^[-A-Za-z0-9_.:]{1,128}$`)
	portForm   = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)
)

// checkName is what Docker asks of a container's name.
func checkName(s string) string {
	if len(s) > maxName || !nameForm.MatchString(s) {
		return "must be 1 to 253 letters, digits, _, . and -, a letter or digit first"
	}
	return ""
}

// checkGroup is checkName of each part: a group is called as the default does it,
// PROJECT/SERVICE, or by one name.
func checkGroup(s string) string {
	wrong := func(part string) bool { return checkName(part) != "" }
	if len(s) > maxName || slices.ContainsFunc(strings.Split(s, "/"), wrong) {
		return `must be NAME or NAME/NAME such as "shop/web" (letters, digits, _, . and -, a letter or digit first in each NAME, at most 253 characters)`
	}
	return ""
}

// checkService is checkGroup of at most two parts.
func checkService(s string) string {
	if wrong := checkGroup(s); wrong != "" || strings.Count(s, "/") <= 1 {
		return wrong
	}
	return "must be NAME or PROJECT/NAME"
}

// checkPortName is IANA_SVC_NAME (RFC 6335).
func checkPortName(s string) string {
	letter := strings.ContainsFunc(s, func(r rune) bool { return r >= 'a' && r <= 'z' })
	if len(s) > 15 || !letter || strings.Contains(s, "--") || !portForm.MatchString(s) {
		return "a port name must be 1 to 15 of a-z, 0-9 and -, with a letter, and without a - at an end or after another -"
	}
	return ""
}

// checkGate is a qualified name of Kubernetes, and none of the conditions that a
// container has without gates.
func checkGate(s string) string {
	prefix, name, found := strings.Cut(s, "/")
	if !found {
		name = s
	}
	switch {
	case found && (len(prefix) > maxName || !subdomain.MatchString(prefix)), len(name) > maxGate, !gateForm.MatchString(name):
		return `must be NAME or DOMAIN/NAME such as "example.com/warmed-up" (NAME: at most 63 letters, digits, _, . and -, a letter or digit at both ends)`
	case slices.Contains([]string{"Started", "ContainerReady", "Ready"}, s):
		return "must not be Started, ContainerReady or Ready, which every container has"
	}
	return ""
}

func checkNotEmpty(s string) string {
	if s == "" {
		return "must not be empty"
	}
	return ""
}

func checkLine(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
		return "must not have control characters"
	}
	return ""
}

// checkPath keeps out of the request line what would end it.
func checkPath(s string) string {
	if s == "" || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return "must not be empty or have spaces or control characters: write %20 for a space"
	}
	if before, _, _ := strings.Cut(s, "?"); strings.Contains(before, "://") {
		return `must be the path alone, such as "/healthz": port, scheme and host are keys of their own`
	}
	return ""
}

func checkHost(s string) string {
	if s == "" {
		return ""
	}
	if _, err := netip.ParseAddr(s); err == nil {
		return ""
	}
	if len(s) > maxName || !hostForm.MatchString(s) {
		return "must be a host name or an IP address, without port or brackets"
	}
	return ""
}

// checkHostIP takes "", which stands for 127.0.0.1.
func checkHostIP(s string) string {
	if s == "" || checkAdvertise(s) == "" {
		return ""
	}
	return `must be an IP address of this host, without port or zone, or "" for 127.0.0.1`
}

func checkListenHost(s string) string {
	if s == "" || checkHost(s) != "" {
		return "must be a host name, without port"
	}
	return ""
}

func checkHeaderName(s string) string {
	switch {
	case !headerForm.MatchString(s):
		return "must be letters, digits and -"
	case strings.EqualFold(s, "Content-Length"), strings.EqualFold(s, "Transfer-Encoding"):
		return "must not be Content-Length or Transfer-Encoding, as the request has no body"
	}
	return ""
}

func checkWord(s string) string {
	if strings.ContainsRune(s, 0) {
		return "must not have a NUL character"
	}
	return ""
}

// checkListen allows port 0, which lets the kernel choose.
func checkListen(s string) string {
	if s == "" {
		return ""
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil || checkHost(host) != "" || !isPort(port, 0) {
		return `must be HOST:PORT such as "127.0.0.1:8646", or "" to turn it off`
	}
	return ""
}

func isPort(s string, least int) bool {
	port, err := strconv.Atoi(s)
	return err == nil && port >= least && port <= 65535 && strconv.Itoa(port) == s
}

func checkSocket(s string) string {
	if !path.IsAbs(s) || len(s) > maxSocket || checkLine(s) != "" {
		return "must be an absolute path of at most 107 bytes"
	}
	return ""
}

// checkUnixGroup keeps out what no line of /etc/group has as a name.
func checkUnixGroup(s string) string {
	if strings.ContainsAny(s, ":,") || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return "must be the name or number of a group"
	}
	return ""
}

// checkRuntimeSocket asks for one of the addresses of HAProxy that need no resolver.
func checkRuntimeSocket(s string) string {
	file := strings.TrimPrefix(s, "unix@")
	switch {
	case sameSocket(s) == "":
		return `must be "/PATH" or "unix@/PATH" of at most 107 bytes, "ipv4@IP:PORT" or "ipv6@[IP]:PORT"`
	case path.IsAbs(file) && path.Clean(file) != file:
		return "must be a path without ., .., a double / or a / at its end"
	}
	return ""
}

// sameSocket returns one text for all that name the same socket, "" when s names none.
func sameSocket(s string) string {
	if file := strings.TrimPrefix(s, "unix@"); path.IsAbs(file) {
		if checkSocket(file) != "" {
			return ""
		}
		return path.Clean(file)
	}
	family, address, _ := strings.Cut(s, "@")
	to, err := netip.ParseAddrPort(address)
	port := address[strings.LastIndexByte(address, ':')+1:]
	v4, v6 := family == "ipv4" && to.Addr().Is4(), family == "ipv6" && to.Addr().Is6() && to.Addr().Zone() == ""
	if err != nil || !isPort(port, 1) || !v4 && !v6 {
		return ""
	}
	return netip.AddrPortFrom(to.Addr().Unmap(), to.Port()).String()
}

// checkBackend is what HAProxy asks of a proxy's name. It goes into HAProxy's command
// line, where a blank or a semicolon would begin something else.
func checkBackend(s string) string {
	if !proxyForm.MatchString(s) {
		return "must be 1 to 128 letters, digits, -, _, . and :"
	}
	return ""
}

func checkDir(s string) string {
	if s != "" && (!path.IsAbs(s) || checkLine(s) != "") {
		return `must be an absolute path, or "" to keep nothing`
	}
	return ""
}

// checkUnixEndpoint is for containerd, which listens on a Unix socket only.
func checkUnixEndpoint(s string) string {
	u, err := url.Parse(s)
	if err == nil && u.Scheme == "unix" && u.Host == "" && checkSocket(u.Path) == "" {
		return ""
	}
	return `must be a Unix socket such as "` + defaultContainerd + `"`
}

// namespaceName is what containerd takes as the name of a namespace.
var namespaceName = regexp.MustCompile(`^[A-Za-z0-9]+(?:[._-][A-Za-z0-9]+)*$`)

func checkNamespace(s string) string {
	const most = 76 // bytes
	if len(s) > most || !namespaceName.MatchString(s) {
		return "must be a namespace of containerd: letters and digits, with single . _ - between them"
	}
	return ""
}

func checkEndpoint(s string) string {
	if s == "" {
		return ""
	}
	u, err := url.Parse(s)
	switch {
	case err != nil:
	case u.Scheme == "unix" && u.Host == "" && checkSocket(u.Path) == "":
		return ""
	case (u.Scheme == "tcp" || u.Scheme == "http" || u.Scheme == "https") && checkHost(u.Hostname()) == "" && u.Host != "":
		return ""
	}
	return `must be an address such as "unix:///var/run/docker.sock" or "tcp://127.0.0.1:2375"`
}
