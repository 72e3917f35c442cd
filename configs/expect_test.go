package configs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor/core"
)

// writePEMs writes a certificate, which is also its own authority, and its key, and returns their paths
// and texts.
func writePEMs(t *testing.T) (certFile, keyFile, cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	key = string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}))
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, text := range map[string]string{certFile: cert, keyFile: key} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile, cert, key
}

func TestExpect(t *testing.T) {
	const text = `
startup   = { exec = { command = ["true"], warning_exit_codes = [1, 255] } }
liveness  = { http_get = { port = 80, method = "HEAD", expect = { status = [204, "300-399"], warning_header = "X-Warn" } } }
readiness = { http_get = { port = 80, method = "POST", expect = { body = "ok", json = "status == 'up'" } } }
`
	for _, tt := range []struct {
		name   string
		labels []string
		probe  core.ProbeType
		want   prober.Handler
	}{
		{"exec", nil, core.Startup, prober.Handler{Exec: &prober.Exec{Command: []string{"true"}, WarningExitCodes: []int{1, 255}}}},
		{"exec by label", []string{"healthd.startup.exec.warning_exit_codes=[2]"}, core.Startup,
			prober.Handler{Exec: &prober.Exec{Command: []string{"true"}, WarningExitCodes: []int{2}}}},
		{"status", nil, core.Liveness, prober.Handler{HTTPGet: &prober.HTTPGet{Scheme: "http", Port: 80, Path: "/", Method: "HEAD",
			Expect: &prober.Expect{Status: []prober.StatusRange{{First: 204, Last: 204}, {First: 300, Last: 399}}, WarningHeader: "X-Warn"}}}},
		{"status by label", []string{"healthd.liveness.http_get.expect.status=200 400-404"}, core.Liveness, prober.Handler{HTTPGet: &prober.HTTPGet{Scheme: "http", Port: 80, Path: "/", Method: "HEAD",
			Expect: &prober.Expect{Status: []prober.StatusRange{{First: 200, Last: 200}, {First: 400, Last: 404}}, WarningHeader: "X-Warn"}}}},
		{"status by label in JSON", []string{`healthd.liveness.http_get.expect.status=[200,"400-404"]`}, core.Liveness, prober.Handler{HTTPGet: &prober.HTTPGet{Scheme: "http", Port: 80, Path: "/", Method: "HEAD",
			Expect: &prober.Expect{Status: []prober.StatusRange{{First: 200, Last: 200}, {First: 400, Last: 404}}, WarningHeader: "X-Warn"}}}},
		{"body", nil, core.Readiness, prober.Handler{HTTPGet: &prober.HTTPGet{Scheme: "http", Port: 80, Path: "/", Method: "POST",
			Expect: &prober.Expect{Body: "ok", JSON: "status == 'up'"}}}},
		{"body by label", []string{"healthd.readiness.http_get.expect.body=up"}, core.Readiness, prober.Handler{HTTPGet: &prober.HTTPGet{Scheme: "http", Port: 80, Path: "/", Method: "POST",
			Expect: &prober.Expect{Body: "up", JSON: "status == 'up'"}}}},
	} {
		spec := resolveText(t, text, tt.labels...)
		if got := spec.Probes[tt.probe].Handler; !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: got %+v %+v, want %+v", tt.name, got.HTTPGet, got.Exec, tt.want)
		}
	}
	shown := map[string]string{}
	for _, v := range resolveText(t, text).Settings() {
		shown[v.Path] = v.Value + " " + v.Origin
	}
	for path, want := range map[string]string{
		"startup.exec.warning_exit_codes":         `[1, 255] healthd.toml:4`,
		"liveness.http_get.method":                `"HEAD" healthd.toml:5`,
		"liveness.http_get.expect.status":         `["204", "300-399"] healthd.toml:5`,
		"liveness.http_get.expect.warning_header": `"X-Warn" healthd.toml:5`,
		"readiness.http_get.expect.json":          `"status == 'up'" healthd.toml:6`,
	} {
		if shown[path] != want {
			t.Errorf("%s: got %s, want %s", path, shown[path], want)
		}
	}
}

func TestTLS(t *testing.T) {
	certFile, keyFile, cert, key := writePEMs(t)
	files := fmt.Sprintf("cert_file = %q, key_file = %q", certFile, keyFile)
	for text, want := range map[string]*prober.TLSClient{
		`http_get = { port = 80, scheme = "https" }`:                                                         nil,
		`http_get = { port = 80, scheme = "https", tls = {} }`:                                               {},
		`http_get = { port = 80, scheme = "HTTPS", tls = { verify = true, server_name = "api" } }`:           {Verify: true, ServerName: "api"},
		`http_get = { port = 80, scheme = "https", tls = { ca_file = "` + certFile + `" } }`:                 {Verify: true, CA: cert},
		`http_get = { port = 80, scheme = "https", tls = { verify = false, ca_file = "` + certFile + `" } }`: {CA: cert},
		`http_get = { port = 80, scheme = "https", tls = { ` + files + ` } }`:                                {Cert: cert, Key: key},
		`grpc = { port = 80 }`: nil,
		`grpc = { port = 80, tls = { verify = true, server_name = "::1", ca_file = "` + certFile + `", ` + files + ` } }`: {Verify: true, ServerName: "::1", CA: cert, Cert: cert, Key: key},
	} {
		h := resolveText(t, "readiness = { "+text+" }").Probes[core.Readiness].Handler
		var got *prober.TLSClient
		if h.HTTPGet != nil {
			got = h.HTTPGet.TLS
		} else {
			got = h.GRPC.TLS
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v", text, got)
		}
	}
	text := fmt.Sprintf("lifecycle.pre_stop.http_get = { port = 80, scheme = \"https\", tls = { ca_file = %q, %s } }", certFile, files)
	spec := resolveText(t, text)
	if got := spec.Lifecycle.PreStop.HTTPGet.TLS; got == nil || *got != (prober.TLSClient{Verify: true, CA: cert, Cert: cert, Key: key}) {
		t.Errorf("hook: %+v", got)
	}
	for _, v := range spec.Settings() {
		if strings.Contains(v.Value, "PRIVATE") || strings.Contains(v.Value, "BEGIN") {
			t.Errorf("%s shows %s", v.Path, v.Value)
		}
	}
}

// A reload takes in what a file has then. A container that comes before sees what the others do.
func TestCertificatesThatChange(t *testing.T) {
	certFile, _, cert, _ := writePEMs(t)
	text := fmt.Sprintf("[[spec]]\nname = \"web\"\nmatch_name = \"c\"\nreadiness.grpc = { port = 80, tls = { ca_file = %q } }\n", certFile)
	old := mustParse(t, text)
	_, _, changed, _ := writePEMs(t)
	if err := os.WriteFile(certFile, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	next := mustParse(t, text)
	specs := map[*Config]*core.Spec{}
	for c, want := range map[*Config]string{old: cert, next: changed} {
		spec, err := c.Resolve(runtime.Traits{Name: "c"})
		if err != nil {
			t.Fatal(err)
		}
		if got := spec.Probes[core.Readiness].Handler.GRPC.TLS.CA; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		specs[c] = spec
	}
	if core.SameSpec(specs[old], specs[next]) {
		t.Error("a reload would not notice the change")
	}
	if err := os.WriteFile(certFile, make([]byte, maxPEM+1), 0o600); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("healthd.toml:4: spec[web].readiness.grpc.tls.ca_file: %s cannot be read: it has more than 1048576 bytes", quote(certFile))
	if _, err := Parse("healthd.toml", []byte(text)); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// A file is read and understood once, however many specs have it from [defaults].
func TestCertificatesOfManySpecs(t *testing.T) {
	certFile, keyFile, cert, _ := writePEMs(t)
	work := func(authorities int) float64 {
		if err := os.WriteFile(certFile+".ca", []byte(strings.Repeat(cert, authorities)), 0o600); err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf("[defaults]\nclaimable = true\nreadiness.grpc = { port = 80, tls = { ca_file = %q, cert_file = %q, key_file = %q } }\n", certFile+".ca", certFile, keyFile)
		for i := range 100 {
			text += fmt.Sprintf("[[spec]]\nname = \"s%d\"\nmatch = { app = \"%d\" }\n", i, i)
		}
		return testing.AllocsPerRun(1, func() { mustParse(t, text).Warnings() })
	}
	if few, many := work(1), work(100); many > 1.5*few {
		t.Errorf("%.0f allocations with 100 authorities, %.0f with one", many, few)
	}
}

// Labels name no files, and change nothing where a file lets healthd show who it is.
func TestLabelsBesideCertificates(t *testing.T) {
	certFile, keyFile, _, _ := writePEMs(t)
	secure := fmt.Sprintf("[[spec]]\nname = \"pay\"\nmatch = { app = \"pay\" }\n"+
		"readiness.http_get = { port = \"http\", scheme = \"https\", tls = { cert_file = %q, key_file = %q } }\n"+
		"liveness.grpc = { port = 81, tls = { ca_file = %q } }\n"+
		"startup.http_get = { port = 80, expect = { status = [200] } }\nports.http = 80\n", certFile, keyFile, certFile)
	const headers = "[[spec]]\nname = \"pay\"\nmatch = { app = \"pay\" }\n" +
		"readiness.http_get = { port = 80, headers = [{ name = \"X-Token\", value = \"s3cret\" }], expect = { body = \"ok\" } }\n" +
		"liveness.http_get = { port = 80, scheme = \"https\", tls = { verify = true } }\n" +
		"startup.http_get = { port = 80, expect = { json = \"a\" } }\n"
	const cert, head = "cannot be set by a label, because healthd.toml:4 sets tls.cert_file", "cannot be set by a label, because healthd.toml:4 sets headers"
	for _, tt := range []struct{ name, file, label, want string }{
		{"port", secure, "readiness.http_get.port=81", "readiness.http_get.port: " + cert},
		{"named port", secure, "ports.http=81", "ports.http: " + cert},
		{"path", secure, "readiness.http_get.path=/x", "readiness.http_get.path: " + cert},
		{"method", secure, "readiness.http_get.method=POST", "readiness.http_get.method: " + cert},
		{"expect", secure, "readiness.http_get.expect.body=x", "readiness.http_get.expect.body: " + cert},
		{"verify", secure, "readiness.http_get.tls.verify=false", "readiness.http_get.tls.verify: " + cert},
		{"another certificate", secure, "readiness.http_get.tls.cert_file=/etc/passwd", "readiness.http_get.tls.cert_file: cannot be set by a label"},
		{"an authority", secure, "readiness.http_get.tls.ca_file=/etc/passwd", "readiness.http_get.tls.ca_file: cannot be set by a label"},
		{"port of gRPC", secure, "liveness.grpc.port=82", "liveness.grpc.port: cannot be set by a label, because healthd.toml:5 sets tls.ca_file"},
		{"verify of gRPC", secure, "liveness.grpc.tls.verify=false", "liveness.grpc.tls.verify: cannot be set by a label, because healthd.toml:5 sets tls.ca_file"},
		{"period", secure, "readiness.period=2s", ""},
		{"another handler", secure, "readiness.tcp_socket.port=82", ""},
		{"handler without secrets", secure, "startup.http_get.port=82", ""},

		{"expect beside headers", headers, "readiness.http_get.expect.body=x", "readiness.http_get.expect.body: " + head},
		{"status beside headers", headers, "readiness.http_get.expect.status=500", "readiness.http_get.expect.status: " + head},
		{"new warning beside headers", headers, "readiness.http_get.expect.warning_header=Cookie", "readiness.http_get.expect.warning_header: " + head},
		{"verify without files", headers, "liveness.http_get.tls.verify=false", ""},
		{"name without files", headers, "liveness.http_get.tls.server_name=a", ""},
		{"no yes and no no", headers, "liveness.http_get.tls.verify=1", `liveness.http_get.tls.verify: must be true or false, is "1"`},
		{"scheme that tls does not go with", headers, "liveness.http_get.scheme=http", `liveness.http_get.scheme: must be "https", because healthd.toml:5 sets tls`},
		{"tls that the scheme does not go with", headers, "startup.http_get.tls.verify=true", `startup.http_get.tls.verify: needs scheme = "https"`},
		{"method that expect does not go with", headers, "startup.http_get.method=HEAD", "startup.http_get.method: must not be HEAD, whose reply has no body, because healthd.toml:6 sets expect.json"},

		{"a spec with certificates", secure, "spec=pay", `spec: "pay" cannot be chosen by a label: its claimable is false, as by default where a spec has headers or certificates`},
		{"files of its own", "", "readiness.grpc.tls.ca_file=/etc/passwd", "readiness.grpc.tls.ca_file: cannot be set by a label"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			all := labels("healthd."+tt.label, "app=pay")
			if tt.label == "spec=pay" {
				delete(all, "app")
			}
			if tt.file == "" {
				all["healthd.readiness.grpc.port"] = "80"
			}
			_, err := mustParse(t, tt.file).Resolve(runtime.Traits{Name: "c", Labels: all})
			got := ""
			if err != nil {
				got = strings.TrimPrefix(err.Error(), "label healthd.")
			}
			if got != tt.want {
				t.Errorf("got:\n%s\nwant:\n%s", got, tt.want)
			}
		})
	}
}

func TestWarnsOfVerifiedAddresses(t *testing.T) {
	for text, want := range map[string]string{
		`http_get = { port = 80, scheme = "https", tls = { verify = true } }`:                      "healthd.toml:3: spec[web].readiness.http_get.tls: ",
		`grpc = { port = 80, tls = { verify = true } }`:                                            "healthd.toml:3: spec[web].readiness.grpc.tls: ",
		`http_get = { port = 80, scheme = "https", tls = { verify = true, server_name = "api" } }`: "",
		`http_get = { port = 80, scheme = "https", host = "api", tls = { verify = true } }`:        "",
		`http_get = { port = 80, scheme = "https", tls = {} }`:                                     "",
		`grpc = { port = 80 }`:       "",
		`tcp_socket = { port = 80 }`: "",
	} {
		if want != "" {
			want += "there is no server_name: healthd accepts only a certificate of the container's IP address"
		}
		if got := one(t, "[[spec]]\nname = \"web\"\nreadiness = { "+text+" }\n"); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}
