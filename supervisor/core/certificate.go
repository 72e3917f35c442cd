package core

import (
	"fmt"
	"time"

	"healthd/prober"
)

const (
	// certificateEndsSoon is how long before its end a certificate is worth a warning.
	certificateEndsSoon = 14 * 24 * time.Hour
	// certificateToldEvery is how often at most a probe's certificate makes an event.
	certificateToldEvery = 24 * time.Hour
)

// Certificate is what this daemon knows of the certificate of the server that a probe asks. It
// outlives runs.
type Certificate struct {
	NotAfter time.Time // end of its validity, by the clock of who issued it; zero: the server showed none
	Soon     bool      // when the probe saw it last, it ended soon or had ended
	ToldAt   time.Time // when the newest event about it was recorded
}

// left returns how long the certificate is valid. It compares the clock of who issued it with that of
// this host, as every client does.
func (c *Certificate) left(now time.Time) time.Duration { return c.NotAfter.Sub(now) }

// noteCertificate keeps the certificate that a probe saw, and records an event while it ends soon.
func (t *stepper) noteCertificate(probe ProbeType, r *prober.Result) {
	switch {
	case r.Certificate.IsZero() && r.Outcome == prober.Success: // the server no longer has one
		t.forgetCertificate(probe)
		return
	case r.Certificate.IsZero(): // the connection failed before
		return
	}
	c := t.Certificate(probe)
	c.NotAfter = r.Certificate
	c.Soon = c.left(t.now) < certificateEndsSoon
	tell := c.Soon && (c.ToldAt.IsZero() || t.now.Sub(c.ToldAt) >= certificateToldEvery)
	if tell {
		c.ToldAt = t.now
	}
	if c != t.Certificate(probe) {
		t.Certificates[probe] = &c
	}
	if !tell {
		return
	}
	t.recordOf(probe, EventProbeWarning, "%s probe warning: the server's certificate %s", probe.Title(), c.end(t.now))
}

// forgetCertificate keeps only when the newest event about it was recorded.
func (t *stepper) forgetCertificate(probe ProbeType) {
	if c := t.Certificate(probe); !c.NotAfter.IsZero() {
		t.Certificates[probe] = &Certificate{ToldAt: c.ToldAt}
	}
}

// Certificate returns what is known of the certificate that a probe sees; zero: nothing.
func (s *State) Certificate(probe ProbeType) Certificate {
	if c := s.Certificates[probe]; c != nil {
		return *c
	}
	return Certificate{}
}

// end returns when the certificate ends or ended.
func (c *Certificate) end(now time.Time) string {
	at := c.NotAfter.UTC().Format(time.RFC3339)
	if left := c.left(now); left > 0 {
		return fmt.Sprintf("ends in %s, at %s", days(left), at)
	}
	return fmt.Sprintf("has ended, at %s", at)
}

// days returns "less than a day", "1 day" or "2 days".
func days(d time.Duration) string {
	switch n := d / (24 * time.Hour); n {
	case 0:
		return "less than a day"
	case 1:
		return "1 day"
	default:
		return fmt.Sprintf("%d days", n)
	}
}

// warnCertificate finds probes whose server has a certificate that ends soon.
func (v *View) warnCertificate() string {
	for t := range ProbeType(NumProbes) {
		if c := v.State.Certificate(t); v.Spec.Probes[t] != nil && c.Soon {
			return fmt.Sprintf("the certificate that its %s probe sees ends or ended at %s: renew it", t, c.NotAfter.UTC().Format(time.RFC3339))
		}
	}
	return ""
}
