package docker

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"

	"github.com/docker/docker/client"
)

// envDockerConfig names the directory that the docker command line uses instead of
// ~/.docker.
const envDockerConfig = "DOCKER_CONFIG"

// endpoint returns where the engine is.
func (e *Engine) endpoint() string {
	if e.conf.Endpoint != "" {
		return e.conf.Endpoint
	}
	if host := os.Getenv(client.EnvOverrideHost); host != "" {
		return host
	}
	return client.DefaultDockerHost
}

// scheme returns the endpoint's scheme, e.g. "unix".
func (e *Engine) scheme() string {
	scheme, _, _ := strings.Cut(e.endpoint(), "://")
	return scheme
}

// OnHost says that the engine runs on healthd's host, as far as its endpoint tells: a Unix
// socket, the host's own name, or one of its addresses.
func (e *Engine) OnHost() bool {
	if e.scheme() == "unix" {
		return true
	}
	u, err := url.Parse(e.endpoint())
	if err != nil {
		return false
	}
	if own, _ := os.Hostname(); u.Hostname() == "" || u.Hostname() == "localhost" || u.Hostname() == own {
		return true
	}
	return isOwn(net.ParseIP(u.Hostname()))
}

// isOwn says that connections to an address go to this host.
func isOwn(ip net.IP) bool {
	if ip.IsLoopback() || ip.IsUnspecified() {
		return true
	}
	addresses, _ := net.InterfaceAddrs()
	return slices.ContainsFunc(addresses, func(a net.Addr) bool {
		prefix, ok := a.(*net.IPNet)
		return ok && prefix.IP.Equal(ip)
	})
}

// hostOptions says where the engine is. Only WithHost makes the transport dial it.
func (e *Engine) hostOptions() ([]client.Opt, error) {
	switch e.scheme() {
	case "unix", "tcp", "http", "https":
	default:
		return nil, errors.New("it must begin with unix://, tcp://, http:// or https://")
	}
	opts, err := e.tlsOptions()
	if err != nil {
		return nil, err
	}
	opts = append(opts, client.WithHost(e.endpoint()))
	if e.conf.Endpoint == "" {
		opts = append(opts, client.WithVersionFromEnv())
	}
	return opts, nil
}

// tls says whether connections to the endpoint use TLS.
func (e *Engine) tls() bool {
	return e.scheme() == "https" || e.scheme() != "unix" && (os.Getenv(client.EnvOverrideCertPath) != "" || os.Getenv(client.EnvTLSVerify) != "")
}

// tlsOptions finds certificates as the docker command line does: in DOCKER_CERT_PATH,
// else in ~/.docker.
func (e *Engine) tlsOptions() ([]client.Opt, error) {
	switch {
	case !e.tls():
		return nil, nil
	case os.Getenv(client.EnvOverrideCertPath) != "":
		return []client.Opt{client.WithTLSClientConfigFromEnv(), client.WithScheme("https")}, nil
	case os.Getenv(client.EnvTLSVerify) == "": // verified with the host's certificates
		return []client.Opt{client.WithScheme("https")}, nil
	}
	dir, err := dockerConfig()
	if err != nil {
		return nil, err
	}
	files := []string{"ca.pem", "cert.pem", "key.pem"}
	for i, name := range files {
		files[i] = filepath.Join(dir, name)
		if _, err := os.Stat(files[i]); err != nil {
			return nil, fmt.Errorf("%s is set, %s is not, and there are no certificates in %s: %w",
				client.EnvTLSVerify, client.EnvOverrideCertPath, dir, err)
		}
	}
	return []client.Opt{client.WithTLSClientConfig(files[0], files[1], files[2]), client.WithScheme("https")}, nil
}

// dockerConfig returns the directory of the docker command line's files. A systemd
// service may have no HOME.
func dockerConfig() (string, error) {
	if dir := os.Getenv(envDockerConfig); dir != "" {
		return dir, nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		u, lookup := user.Current()
		if lookup != nil {
			return "", fmt.Errorf("cannot find ~/.docker: %w", lookup)
		}
		home = u.HomeDir
	}
	return filepath.Join(home, ".docker"), nil
}
