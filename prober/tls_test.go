package prober

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// authority makes certificates for a test.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  string
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	a := &authority{t: t}
	a.pem, _ = a.issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	return a
}

// issue returns a certificate like template and its key, both in PEM. The first one is the authority's own.
func (a *authority) issue(template *x509.Certificate) (cert, key string) {
	a.t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore = time.Now().Add(-24 * time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, private
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, private.Public(), signer)
	if err != nil {
		a.t.Fatal(err)
	}
	if a.cert == nil {
		if a.cert, err = x509.ParseCertificate(der); err != nil {
			a.t.Fatal(err)
		}
		a.key = private
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		a.t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}))
}

// server returns the TLS of a server with a certificate of that name and end.
func (a *authority) server(name string, notAfter time.Time) *tls.Config {
	a.t.Helper()
	pair, err := tls.X509KeyPair(bytesOf(a.issue(&x509.Certificate{DNSNames: []string{name}, NotAfter: notAfter, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})))
	if err != nil {
		a.t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}}
}

// client returns healthd's own certificate and key.
func (a *authority) client() (cert, key string) {
	a.t.Helper()
	return a.issue(&x509.Certificate{Subject: pkix.Name{CommonName: "healthd"}, NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
}

// wantsClients has c ask clients for a certificate of a.
func (a *authority) wantsClients(c *tls.Config) *tls.Config {
	c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
	c.ClientCAs.AddCert(a.cert)
	return c
}

func bytesOf(cert, key string) (c, k []byte) { return []byte(cert), []byte(key) }

// secureServer returns the port of an HTTPS server.
func secureServer(t *testing.T, c *tls.Config, h http.HandlerFunc) int {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.TLS, s.Config.ErrorLog = c, log.New(io.Discard, "", 0)
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	return portOf(t, s.URL)
}

// secureGRPC returns the port of a gRPC server that is healthy.
func secureGRPC(t *testing.T, c *tls.Config) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(grpc.Creds(credentials.NewTLS(c)))
	healthpb.RegisterHealthServer(s, health.NewServer())
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = s.Serve(l)
	}()
	t.Cleanup(func() {
		s.Stop()
		<-served
	})
	return portOf(t, l.Addr().String())
}

func TestTLS(t *testing.T) {
	a, stranger, namesake := newAuthority(t, "a"), newAuthority(t, "stranger"), newAuthority(t, "a")
	later, before := time.Now().Add(20*time.Hour).Truncate(time.Second), time.Now().Add(-time.Hour).Truncate(time.Second)
	cert, key := a.client()
	strangeCert, strangeKey := stranger.client()
	wrongCert, wrongKey := namesake.client()
	const asks = "the server asked for a client certificate that it trusts, and healthd has none"
	const refuses = "the server asked for a client certificate, and may have refused healthd's"
	good := func() *tls.Config { return a.server("api", later) }
	for _, tt := range []struct {
		name     string
		server   *tls.Config
		client   *TLSClient // nil: for HTTP none, for gRPC the zero one
		notAfter time.Time
		output   string // of a Failure; empty: Success
	}{
		{"as the kubelet", good(), nil, later, ""},
		{"as the kubelet, expired", a.server("api", before), nil, before, ""},
		{"no verification, another name", good(), &TLSClient{ServerName: "other"}, later, ""},
		{"verified", good(), &TLSClient{Verify: true, CA: a.pem, ServerName: "api"}, later, ""},
		{"several authorities", good(), &TLSClient{Verify: true, CA: stranger.pem + a.pem, ServerName: "api"}, later, ""},
		{"another name", good(), &TLSClient{Verify: true, CA: a.pem, ServerName: "other"}, later, "tls: failed to verify certificate: x509: certificate is valid for api, not other"},
		{"no name", good(), &TLSClient{Verify: true, CA: a.pem}, later, "tls: failed to verify certificate: x509: cannot validate certificate for 127.0.0.1"},
		{"another authority", good(), &TLSClient{Verify: true, CA: stranger.pem, ServerName: "api"}, later, "tls: failed to verify certificate: x509: certificate signed by unknown authority"},
		{"none of the host's authorities", good(), &TLSClient{Verify: true, ServerName: "api"}, later, "tls: failed to verify certificate: x509: certificate signed by unknown authority"},
		{"expired", a.server("api", before), &TLSClient{Verify: true, CA: a.pem, ServerName: "api"}, before, "tls: failed to verify certificate: x509: certificate has expired"},
		{"client certificate", a.wantsClients(good()), &TLSClient{Verify: true, CA: a.pem, ServerName: "api", Cert: cert, Key: key}, later, ""},
		{"no client certificate", a.wantsClients(good()), &TLSClient{Verify: true, CA: a.pem, ServerName: "api"}, later, asks},
		{"another client's certificate", a.wantsClients(good()), &TLSClient{Cert: strangeCert, Key: strangeKey}, later, asks},
		{"a client certificate that the server refuses", a.wantsClients(good()), &TLSClient{Cert: wrongCert, Key: wrongKey}, later, refuses},
	} {
		want := func(t *testing.T, r Result) {
			t.Helper()
			if tt.output == "" {
				wantResult(t, r, Success, "")
			} else {
				wantOutput(t, r, tt.output)
			}
			if r.Outcome == Unknown || !r.Certificate.Equal(tt.notAfter) {
				t.Errorf("%v, certificate until %v, want %v", r.Outcome, r.Certificate, tt.notAfter)
			}
		}
		t.Run("HTTP, "+tt.name, func(t *testing.T) {
			port := secureServer(t, tt.server.Clone(), func(http.ResponseWriter, *http.Request) {})
			r := ask(t, Handler{HTTPGet: &HTTPGet{Scheme: "https", Port: port, TLS: tt.client}})
			want(t, r)
			if tt.output != "" && tt.output != asks && tt.output != refuses { // HTTP/2 hides that cause
				wantResult(t, r, Failure, TLS)
			}
			hook := runHook(t, LifecycleHandler{HTTPGet: &HTTPGet{Scheme: "https", Port: port, TLS: tt.client}})
			if (hook.Err != nil) != (tt.output != "") || hook.Err != nil && tt.output != asks && tt.output != refuses && !strings.Contains(hook.Err.Error(), tt.output) || hook.HTTPFallback {
				t.Errorf("hook: %+v, want %q", hook, tt.output)
			}
		})
		t.Run("gRPC, "+tt.name, func(t *testing.T) {
			client := tt.client
			if client == nil {
				client = &TLSClient{}
			}
			want(t, ask(t, Handler{GRPC: &GRPC{Port: secureGRPC(t, tt.server.Clone()), TLS: client}}))
		})
	}
}

// A server that accepts and hangs up in the handshake is no reply that is incomplete.
func TestHangUpInTheHandshake(t *testing.T) {
	port := rawServer(t, false, func(c net.Conn, _ <-chan struct{}) { _, _ = c.Read(make([]byte, 4096)) })
	for _, keep := range []bool{false, true} {
		r := ask(t, Handler{HTTPGet: &HTTPGet{Scheme: "https", Port: port, KeepAlive: keep}})
		wantResult(t, r, Failure, TLS)
		wantOutput(t, r, fmt.Sprintf("GET https://127.0.0.1:%d: the server hung up in the TLS handshake", port))
	}
	r := ask(t, Handler{GRPC: &GRPC{Port: port, TLS: &TLSClient{}}})
	wantResult(t, r, Failure, TLS)
	wantOutput(t, r, "the server hung up in the TLS handshake")
}

func TestTLSAgainstNone(t *testing.T) {
	a := newAuthority(t, "a")
	plain := webServer(t, func(http.ResponseWriter, *http.Request) { t.Error("asked without TLS") })
	client := &TLSClient{Verify: true, CA: a.pem}
	r := ask(t, Handler{HTTPGet: &HTTPGet{Scheme: "https", Port: plain, TLS: client}})
	wantOutput(t, r, "the server speaks plain HTTP, not TLS")
	if wantResult(t, r, Failure, Protocol); !r.Certificate.IsZero() {
		t.Errorf("certificate until %v", r.Certificate)
	}
	// Without tls the hook would be sent again in plain HTTP.
	hook := runHook(t, LifecycleHandler{HTTPGet: &HTTPGet{Scheme: "https", Port: plain, TLS: client}})
	if wantError(t, hook.Err, fmt.Sprintf(`cannot get "https://127.0.0.1:%d": http: server gave HTTP response to HTTPS client`, plain)); hook.HTTPFallback {
		t.Error("fell back")
	}
	secret := secureServer(t, a.server("api", time.Now().Add(time.Hour)), func(http.ResponseWriter, *http.Request) {})
	wantResult(t, ask(t, Handler{GRPC: &GRPC{Port: plain, TLS: client}}), Failure, TLS)
	wantResult(t, ask(t, Handler{GRPC: &GRPC{Port: secret}}), Failure, Protocol)
}

// healthd shows its certificate to no server but the container's, and a verified server does not send
// it to one that is not.
func TestTLSRedirects(t *testing.T) {
	a := newAuthority(t, "a")
	asked := make(chan string, 9)
	other := secureServer(t, a.server("api", time.Now().Add(time.Hour)), func(_ http.ResponseWriter, r *http.Request) { asked <- r.URL.Path })
	plain := webServer(t, func(_ http.ResponseWriter, r *http.Request) { asked <- r.URL.Path })
	var location string
	port := secureServer(t, a.server("api", time.Now().Add(time.Hour)), func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			http.Redirect(w, r, location, http.StatusFound)
			return
		}
		asked <- r.URL.Path
	})
	for _, tt := range []struct {
		location string
		client   *TLSClient
		cause    Cause
	}{
		{"/new", nil, ""},
		{"/new", &TLSClient{}, ""},
		{fmt.Sprintf("https://127.0.0.1:%d/new", other), nil, ""},
		{fmt.Sprintf("https://127.0.0.1:%d/new", other), &TLSClient{}, Redirect},
		{fmt.Sprintf("http://127.0.0.1:%d/new", plain), nil, ""},
		{fmt.Sprintf("http://127.0.0.1:%d/new", plain), &TLSClient{}, Redirect},
	} {
		location = tt.location
		get := &HTTPGet{Scheme: "https", Port: port, Path: "/", TLS: tt.client}
		wantResult(t, ask(t, Handler{HTTPGet: get}), Success, tt.cause)
		wantError(t, runHook(t, LifecycleHandler{HTTPGet: get}).Err, "")
		want := 2
		if tt.cause == Redirect {
			want = 0
		}
		if len(asked) != want {
			t.Errorf("%s with %v: asked %d times, want %d", tt.location, tt.client, len(asked), want)
		}
		for len(asked) > 0 {
			<-asked
		}
	}
}

func TestTLSClientCheck(t *testing.T) {
	a := newAuthority(t, "a")
	cert, key := a.client()
	_, another := a.client()
	for _, tt := range []struct {
		client TLSClient
		want   string // empty: right
	}{
		{TLSClient{}, ""},
		{TLSClient{CA: a.pem, Cert: cert, Key: key}, ""},
		{TLSClient{CA: "s3cret"}, "cannot use the authorities' certificates: no certificate in PEM"},
		{TLSClient{CA: key}, "cannot use the authorities' certificates: no certificate in PEM"},
		{TLSClient{Cert: cert, Key: another}, "cannot use the client certificate: tls: private key does not match public key"},
		{TLSClient{Cert: cert}, "cannot use the client certificate: tls: failed to find any PEM data in key input"},
		{TLSClient{Key: key}, "cannot use the client certificate: tls: failed to find any PEM data in certificate input"},
	} {
		got := ""
		if err := tt.client.Check(); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
		for what, h := range map[string]Handler{"HTTP": {HTTPGet: &HTTPGet{Scheme: "https", Port: 1, TLS: &tt.client}}, "gRPC": {GRPC: &GRPC{Port: 1, TLS: &tt.client}}} {
			if _, err := New(Config{}).Probe(h, loopback); (err != nil) != (tt.want != "") {
				t.Errorf("%s: %v, want %q", what, err, tt.want)
			}
		}
	}
}
