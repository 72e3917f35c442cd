package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"healthd/configs"
)

// fleetHostWarnings returns what of a fleet this host does not have: files that can be read and are good now, and the
// address that others are told.
func fleetHostWarnings(f *configs.Fleet, now time.Time) []string {
	if f == nil {
		return nil
	}
	var all []string
	warn := func(key, format string, args ...any) {
		all = append(all, "fleet."+key+": "+fmt.Sprintf(format, args...))
	}
	if f.CAFile != "" {
		if text, err := os.ReadFile(f.CAFile); err != nil {
			warn("ca_file", "%v", err)
		} else if !x509.NewCertPool().AppendCertsFromPEM(text) {
			warn("ca_file", "%s has no certificate", f.CAFile)
		}
	}
	if f.CertFile != "" {
		if wrong := wrongCertificate(f.CertFile, f.KeyFile, now); wrong != "" {
			warn("cert_file", "%s", wrong)
		}
	}
	if f.PasswordFile != "" {
		if text, err := os.ReadFile(f.PasswordFile); err != nil {
			warn("password_file", "%v", err)
		} else if strings.TrimRight(string(text), "\r\n") == "" {
			warn("password_file", "%s is empty", f.PasswordFile)
		}
	}
	if f.Advertise.IsValid() && errors.Is(bindable(f.Advertise), syscall.EADDRNOTAVAIL) {
		warn("advertise", "%s is no address of this host: other hosts reach it only if something between forwards it here", f.Advertise)
	}
	return all
}

// wrongCertificate says what is wrong now with a certificate and its key; empty: nothing.
func wrongCertificate(cert, key string, now time.Time) string {
	pair, err := tls.LoadX509KeyPair(cert, key)
	switch {
	case err != nil:
		return fmt.Sprintf("cannot use %s with %s: %v", cert, key, err)
	case now.After(pair.Leaf.NotAfter):
		return fmt.Sprintf("%s has ended at %s", cert, pair.Leaf.NotAfter.UTC().Format(time.RFC3339))
	case now.Before(pair.Leaf.NotBefore):
		return fmt.Sprintf("%s begins at %s only", cert, pair.Leaf.NotBefore.UTC().Format(time.RFC3339))
	}
	return ""
}
