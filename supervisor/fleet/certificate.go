package fleet

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"
)

// certificates are the files that TLS needs. Certificate and key are read with each handshake, so that new ones need no restart.
type certificates struct {
	ca, cert, key string
}

// certificatesOf returns nil when no endpoint uses TLS.
func certificatesOf(c *Config) (*certificates, error) {
	secure := false
	for _, endpoint := range c.Endpoints {
		secure = secure || strings.HasPrefix(endpoint, "https://")
	}
	if !secure {
		return nil, nil
	}
	files := &certificates{ca: c.CAFile, cert: c.CertFile, key: c.KeyFile}
	if _, err := files.config(); err != nil {
		return nil, err
	}
	if _, err := files.own(); err != nil {
		return nil, err
	}
	return files, nil
}

func (f *certificates) config() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.ca != "" {
		text, err := os.ReadFile(f.ca)
		if err != nil {
			return nil, err
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s has no certificate", f.ca)
		}
	}
	if f.cert != "" {
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return f.own() }
	}
	return c, nil
}

// own returns the certificate that healthd shows; nil: none.
func (f *certificates) own() (*tls.Certificate, error) {
	if f.cert == "" {
		return nil, nil
	}
	c, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return nil, fmt.Errorf("cannot read the certificate %s: %w", f.cert, err)
	}
	return &c, nil
}

const (
	certificateEvery = time.Minute // looked at
	tellBefore       = 7 * 24 * time.Hour
)

// tellExpiryAt returns when to tell that a certificate ends: a week before, but not while most of a short life is left.
func tellExpiryAt(leaf *x509.Certificate) time.Time {
	life := leaf.NotAfter.Sub(leaf.NotBefore)
	return leaf.NotAfter.Add(-min(tellBefore, life/6))
}

// watchCertificate looks at the certificate on the disk until ctx ends, and tells once of each that is about to end.
func (f *Fleet) watchCertificate(ctx context.Context) {
	if f.store.tls == nil || f.store.tls.cert == "" {
		return
	}
	var told time.Time // when the one that was told of ends
	for {
		own, err := f.store.tls.own()
		if err != nil {
			f.fail(aboutCertificate, failed, err.Error())
		} else {
			leaf := own.Leaf
			f.metrics.certificate.Set(float64(leaf.NotAfter.Unix()))
			switch now := time.Now(); {
			case now.Before(tellExpiryAt(leaf)):
				f.mend(aboutCertificate)
			case !leaf.NotAfter.Equal(told):
				told = leaf.NotAfter
				f.mend(aboutCertificate)
				f.fail(aboutCertificate, failed, fmt.Sprintf("the certificate %s ends at %s", f.store.tls.cert, leaf.NotAfter.UTC().Format(time.RFC3339)))
			}
		}
		if !sleep(ctx, certificateEvery) {
			return
		}
	}
}

// cause finds out why etcd does not answer: its client says no more of a fault of TLS than of a missing route.
func (s *connection) cause(ctx context.Context) error {
	var causes []string
	for _, endpoint := range s.config.Endpoints {
		if err := s.try(ctx, endpoint); err != nil {
			causes = append(causes, err.Error())
		}
	}
	if len(causes) == 0 {
		return nil
	}
	const most = 3
	if n := len(causes); n > most {
		causes = append(causes[:most], fmt.Sprintf("and %d more", n-most))
	}
	return errors.New(strings.Join(causes, "; "))
}

// try does what a client does first.
func (s *connection) try(ctx context.Context, endpoint string) error {
	address, secure := endpoint, false
	if u, err := url.Parse(endpoint); err == nil && u.Host != "" {
		address, secure = u.Host, u.Scheme == "https"
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	if !secure || s.tls == nil {
		return nil
	}
	config, err := s.tls.config()
	if err != nil {
		return err
	}
	config.ServerName, _, _ = net.SplitHostPort(address)
	config.NextProtos = []string{"h2"}
	secured := tls.Client(conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		return fmt.Errorf("%s: %w", address, err)
	}
	// What the server says of our certificate comes after the handshake; what it says to a good client, too.
	_ = secured.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
	_, err = secured.Read(make([]byte, 1))
	if e, ok := errors.AsType[net.Error](err); err == nil || ok && e.Timeout() {
		return nil
	}
	return fmt.Errorf("%s: %w", address, err)
}
