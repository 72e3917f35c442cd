package docker

import (
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tlsEngine is an engine that speaks TLS, and a directory with certificates for it.
func tlsEngine(t *testing.T) (address, certificates string) {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Api-Version", "1.41")
		_, _ = w.Write([]byte(`{"Running":true}`))
	}))
	t.Cleanup(server.Close)
	certificates = t.TempDir()
	key, err := x509.MarshalPKCS8PrivateKey(server.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{
		"ca.pem":   {Type: "CERTIFICATE", Bytes: server.Certificate().Raw},
		"cert.pem": {Type: "CERTIFICATE", Bytes: server.Certificate().Raw},
		"key.pem":  {Type: "PRIVATE KEY", Bytes: key},
	} {
		if err := os.WriteFile(filepath.Join(certificates, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return server.Listener.Addr().String(), certificates
}

// environment sets all variables that say where the engine is.
func environment(t *testing.T, host, verify, path, home string) {
	t.Helper()
	for name, value := range map[string]string{
		"DOCKER_HOST": host, "DOCKER_TLS_VERIFY": verify, "DOCKER_CERT_PATH": path, "DOCKER_CONFIG": "", "HOME": home, "DOCKER_API_VERSION": "",
	} {
		t.Setenv(name, value)
	}
}

func TestTLS(t *testing.T) {
	address, certificates := tlsEngine(t)
	home := t.TempDir()
	if err := os.Symlink(certificates, filepath.Join(home, ".docker")); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, host, endpoint, verify, path string }{
		{"verified by DOCKER_CERT_PATH", "tcp://" + address, "", "1", certificates},
		{"not verified", "tcp://" + address, "", "", certificates},
		{"verified by ~/.docker", "tcp://" + address, "", "1", ""},
		{"configured", "unix:///nonexistent", "tcp://" + address, "1", ""},
		{"https", "https://" + address, "", "1", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			environment(t, tt.host, tt.verify, tt.path, home)
			e, err := New(Config{Endpoint: tt.endpoint})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			if err := e.Ping(t.Context()); err != nil {
				t.Fatal(err)
			}
			c, err := e.client(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var in execState
			if err := e.get(t.Context(), c, "/exec/x/json", &in); err != nil || !in.Running {
				t.Errorf("past the client: %+v, %v", in, err)
			}
		})
	}
	t.Run("https by the host's own certificates", func(t *testing.T) {
		environment(t, "https://"+address, "", "", home)
		e, err := New(Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		if err := e.Ping(t.Context()); err == nil || !strings.Contains(err.Error(), "certificate") {
			t.Errorf("got %v of an engine that nobody vouches for", err)
		}
	})
}

func TestOldestEngine(t *testing.T) {
	environment(t, "", "", "", t.TempDir())
	for version, works := range map[string]bool{"1.40": false, "1.41": true, "1.51": true, "": true} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Api-Version", version)
		}))
		defer server.Close()
		endpoint := "tcp://" + server.Listener.Addr().String()
		e, err := New(Config{Endpoint: endpoint})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		err = e.Ping(t.Context())
		if works && err != nil {
			t.Errorf("API %q: %v", version, err)
		}
		want := "cannot use Docker at " + endpoint + ": it speaks API " + version + ", and healthd needs 1.41 (Docker 20.10) or newer"
		if !works && (err == nil || err.Error() != want) {
			t.Errorf("API %q: got %v, want %s", version, err, want)
		}
	}
}

func TestEndpointsThatCannotBeUsed(t *testing.T) {
	home := t.TempDir()
	for _, tt := range []struct{ host, verify, path, want string }{
		{"ssh://root@host", "", "", "cannot use the Docker endpoint ssh://root@host: it must begin with unix://, tcp://, http:// or https://"},
		{"fd://", "", "", "cannot use the Docker endpoint fd://: it must begin with unix://, tcp://, http:// or https://"},
		{"host:2375", "", "", "cannot use the Docker endpoint host:2375: it must begin with unix://, tcp://, http:// or https://"},
		{"tcp://host:2376", "1", "", "cannot use the Docker endpoint tcp://host:2376: DOCKER_TLS_VERIFY is set, DOCKER_CERT_PATH is not, " +
			"and there are no certificates in " + home + "/.docker: stat " + home + "/.docker/ca.pem: no such file or directory"},
	} {
		environment(t, tt.host, tt.verify, tt.path, home)
		if _, err := New(Config{}); err == nil || err.Error() != tt.want {
			t.Errorf("%s: got %v, want %s", tt.host, err, tt.want)
		}
	}
	environment(t, "unix:///nonexistent", "1", "", home)
	if _, err := New(Config{}); err != nil {
		t.Errorf("a socket needs no certificates: %v", err)
	}
}
