package prober

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"
)

// maxCredentials is how many files with authorities, and how many with certificates, are kept as they
// were understood. A reload that changed one leaves the old one behind.
const maxCredentials = 64

// credentialsRead keeps what texts in PEM mean. Many probes share a file: to understand that with the
// authorities of a distribution takes 10 ms and 1 MB. Its methods may be called from any goroutine.
type credentialsRead struct {
	mu          sync.Mutex
	authorities map[string]*x509.CertPool
	pairs       map[pairText]tls.Certificate
}

type pairText struct{ cert, key string }

// unverified is what the kubelet asks with, the same for all: each has 440 bytes.
var unverified = tls.Config{InsecureSkipVerify: true}

// config returns the configuration of a client; of nil that of the kubelet. It shares parts with others, so
// that only a clone may be changed.
func (r *credentialsRead) config(t *TLSClient) (*tls.Config, error) {
	if t == nil {
		return &unverified, nil
	}
	c := &tls.Config{InsecureSkipVerify: !t.Verify, ServerName: t.ServerName}
	r.mu.Lock()
	defer r.mu.Unlock()
	if t.CA != "" {
		pool, err := once(&r.authorities, t.CA, parseAuthorities)
		if err != nil {
			return nil, fmt.Errorf("cannot use the authorities' certificates: %w", err)
		}
		c.RootCAs = pool
	}
	if t.Cert == "" && t.Key == "" {
		return c, nil
	}
	pair, err := once(&r.pairs, pairText{t.Cert, t.Key}, parsePair)
	if err != nil {
		return nil, fmt.Errorf("cannot use the client certificate: %w", err)
	}
	c.Certificates = []tls.Certificate{pair}
	return c, nil
}

// once returns what is kept for a text, else what parse makes of it, and keeps that.
func once[K comparable, V any](kept *map[K]V, text K, parse func(K) (V, error)) (V, error) {
	if v, ok := (*kept)[text]; ok {
		return v, nil
	}
	v, err := parse(text)
	if err != nil {
		return v, err
	}
	if *kept == nil || len(*kept) >= maxCredentials {
		*kept = map[K]V{}
	}
	(*kept)[text] = v
	return v, nil
}

func parseAuthorities(text string) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(text)) {
		return nil, errors.New("no certificate in PEM")
	}
	return pool, nil
}

func parsePair(text pairText) (tls.Certificate, error) {
	return tls.X509KeyPair([]byte(text.cert), []byte(text.key))
}
