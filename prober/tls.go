package prober

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"sync/atomic"
	"time"
)

// TLSClient says how a probe or hook speaks TLS. It has what the files held when the configuration was
// read, so that a changed file is a changed handler.
type TLSClient struct {
	// Verify says whether the server's certificate must be valid. Without it any one is
	// accepted, as in the kubelet: a probe checks health, not certificates.
	Verify bool
	// ServerName is the name that the server is asked for, and that its certificate must have;
	// empty: the host that is asked, without Host an IP address.
	ServerName string
	CA         string // certificates in PEM that Verify trusts; empty: those of healthd's host
	// Cert and Key are healthd's own certificate and its private key in PEM; both are empty
	// where the server wants none.
	Cert, Key string
}

// Check returns what is wrong with the certificates and the key, which no message repeats.
func (t *TLSClient) Check() error {
	_, err := new(credentialsRead).config(t)
	return err
}

// errHungUp is why there is no TLS: the connection ended in the handshake.
var errHungUp = errors.New("the server hung up in the TLS handshake")

const speaksTLS = "the server wants TLS (scheme = \"https\"?)"

var errSpeaksTLS = errors.New(speaksTLS)

// isTLSRecord reports whether a server answers a plain request with an alert of TLS.
func isTLSRecord(b []byte) bool { return len(b) >= 2 && b[0] == 0x15 && b[1] == 3 }

// handshakes notes what the handshakes of one Ask showed. Its methods may be called from any
// goroutine: a transport may still be connecting when Ask returns.
type handshakes struct {
	notAfter atomic.Pointer[time.Time] // of the first server's certificate
	asked    atomic.Pointer[string]    // what to tell if the server asked for healthd's certificate
}

// watch returns c for a client whose handshakes h notes.
func (h *handshakes) watch(c *tls.Config) *tls.Config {
	c = c.Clone()
	c.VerifyConnection = func(state tls.ConnectionState) error {
		h.note(state.PeerCertificates)
		return nil
	}
	own := c.Certificates
	c.GetClientCertificate = func(asked *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		for i := range own {
			if asked.SupportsCertificate(&own[i]) == nil {
				h.asked.Store(new("the server asked for a client certificate, and may have refused healthd's"))
				return &own[i], nil
			}
		}
		h.asked.Store(new("the server asked for a client certificate that it trusts, and healthd has none"))
		return &tls.Certificate{}, nil // as crypto/tls does
	}
	return c
}

// conclude adds to r what the handshakes showed. In TLS 1.3 the server refuses a client's certificate
// only after the handshake, which HTTP/2 reports as a broken connection.
func (h *handshakes) conclude(r Result) Result {
	r.Certificate = h.certificate()
	if why := h.asked.Load(); why != nil && (r.Cause == TLS || r.Cause == Reset || r.Cause == Protocol) {
		r.Output = clean(r.Output + " (" + *why + ")")
	}
	return r
}

// accepted notes that a reply came: a later failure is not due to healthd's certificate.
func (h *handshakes) accepted() { h.asked.Store(nil) }

func (h *handshakes) note(certificates []*x509.Certificate) {
	if len(certificates) > 0 {
		h.notAfter.CompareAndSwap(nil, new(plainTime(certificates[0].NotAfter)))
	}
}

// plainTime returns the nearest time that is not zero and that JSON can hold: a certificate's may
// be in the year 10000, by an odd time zone.
func plainTime(t time.Time) time.Time {
	first, last := time.Time{}.Add(time.Second), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	switch {
	case t.Before(first):
		return first
	case t.After(last):
		return last
	}
	return t
}

// noteError notes the certificate that a handshake failed for.
func (h *handshakes) noteError(err error) {
	if invalid, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		h.note(invalid.UnverifiedCertificates)
	}
}

// hungUp returns errHungUp for the end of a connection on which the server showed no certificate yet, and other
// errors as they are.
func (h *handshakes) hungUp(err error) error {
	if err != nil && h.notAfter.Load() == nil && classify(err) == Reset {
		return errHungUp
	}
	return err
}

// certificate returns when the server's certificate ends; zero: there is none.
func (h *handshakes) certificate() time.Time {
	if at := h.notAfter.Load(); at != nil {
		return *at
	}
	return time.Time{}
}
