package configs

import (
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"

	"healthd/prober"
)

// warnHandler warns of what a handler will not do as it reads.
func warnHandler(key string, h prober.Handler) []warning {
	switch {
	case h.HTTPGet != nil:
		return told(
			warning{key + ".http_get.port", speaksTLS(h.HTTPGet)},
			warning{key + ".http_get.path", neverSent(h.HTTPGet.Path)},
			warning{key + ".http_get.tls", verifiesAddress(h.HTTPGet.Host, h.HTTPGet.TLS)},
			warning{key + ".http_get.connection", keepsNone(h.HTTPGet)},
		)
	case h.GRPC != nil:
		return told(warning{key + ".grpc.tls", verifiesAddress("", h.GRPC.TLS)})
	case h.Exec != nil:
		return told(warning{key + ".exec.command", notAShell(h.Exec.Command)})
	}
	return nil
}

// speaksTLS warns of a port on which plain HTTP is hardly ever spoken.
func speaksTLS(h *prober.HTTPGet) string {
	if h.Scheme != "http" || h.Port != 443 && h.Port != 8443 {
		return ""
	}
	return `is usually one of TLS, which answers plain HTTP with an error: write scheme = "https"`
}

// verifiesAddress warns of a certificate that must be of the container's address.
func verifiesAddress(host string, tls *prober.TLSClient) string {
	if tls == nil || !tls.Verify || tls.ServerName != "" || host != "" {
		return ""
	}
	return "there is no server_name: healthd accepts only a certificate of the container's IP address"
}

// keepsNone warns of a connection that is never kept.
func keepsNone(h *prober.HTTPGet) string {
	if !h.KeepAlive || h.Method != http.MethodPost {
		return ""
	}
	return `has no effect with method = "POST": healthd opens a connection for each request that must not be sent twice`
}

// neverSent warns of a fragment.
func neverSent(path string) string {
	if !strings.Contains(path, "#") {
		return ""
	}
	return "has a #: what follows it is not sent; write %23 if it belongs to the path"
}

var (
	shellOperator = regexp.MustCompile(`^([|&;]|\|\||&&|[012]?>>?(&[012])?|<)$`)
	shellVariable = regexp.MustCompile(`\$(?:[A-Za-z_][A-Za-z0-9_]*|\{[^}]*\})`)
)

// notAShell warns of a command that only a shell would understand.
func notAShell(command []string) string {
	if isShell(command[0]) {
		return ""
	}
	if len(command) == 1 && strings.Contains(command[0], " ") {
		return "is one word, and so the name of a program with blanks in it: write " + commandInstead(command[0])
	}
	if i := slices.IndexFunc(command, shellOperator.MatchString); i >= 0 {
		return "no shell runs this, so " + command[i] + " is a word like others: write [\"sh\", \"-c\", \"…\"]"
	}
	for _, word := range command {
		unescaped := strings.ReplaceAll(word, "$$", "")
		if variable := shellVariable.FindString(unescaped); variable != "" && !strings.HasPrefix(path.Base(command[0]), "awk") {
			name := strings.Trim(variable, "${}")
			return "no shell runs this, so " + quote(variable) + " stays as it is: write $(" + shorten(name) + "), which healthd replaces, or [\"sh\", \"-c\", \"…\"]"
		}
	}
	return ""
}
