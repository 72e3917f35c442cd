package etcdtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TLS has the files of a certificate authority and what it has signed. Servers ask clients for certificates.
type TLS struct {
	CA, ServerCert, ServerKey string
	ca                        *x509.Certificate
	key                       *ecdsa.PrivateKey
	dir                       string
	own                       tls.Certificate // of the tests' own clients
}

// NewTLS makes a certificate authority, and a certificate for servers on 127.0.0.1.
func NewTLS(t testing.TB) *TLS {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := &TLS{key: key, dir: t.TempDir()}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	if a.ca, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.CA = a.write(t, "ca.pem", "CERTIFICATE", der)
	a.ServerCert, a.ServerKey = a.Sign(t, "server", time.Now().Add(24*time.Hour))
	cert, ownKey := a.Sign(t, "own", time.Now().Add(24*time.Hour))
	if a.own, err = tls.LoadX509KeyPair(cert, ownKey); err != nil {
		t.Fatal(err)
	}
	return a
}

// Sign writes a certificate and its key, and returns where. It replaces those of the same name.
func (a *TLS) Sign(t testing.TB, name string, notAfter time.Time) (cert, key string) {
	t.Helper()
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: notAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.ca, own.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		t.Fatal(err)
	}
	return a.write(t, name+".pem", "CERTIFICATE", der), a.write(t, name+".key", "PRIVATE KEY", plain)
}

func (a *TLS) write(t testing.TB, name, kind string, der []byte) string {
	t.Helper()
	path := filepath.Join(a.dir, name)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func (a *TLS) flags() []string {
	return []string{"--cert-file", a.ServerCert, "--key-file", a.ServerKey, "--trusted-ca-file", a.CA, "--client-cert-auth"}
}

func (a *TLS) client() *tls.Config {
	roots := x509.NewCertPool()
	roots.AddCert(a.ca)
	return &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{a.own}, MinVersion: tls.VersionTLS12}
}
