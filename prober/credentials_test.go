package prober

import (
	"strings"
	"testing"
)

// The loop builds the probes of thousands of containers, which may all trust the authorities of a distribution.
func TestFilesAreReadOnce(t *testing.T) {
	a := newAuthority(t, "a")
	cert, key := a.client()
	client := &TLSClient{Verify: true, CA: strings.Repeat(a.pem, 100), Cert: cert, Key: key}
	p := New(Config{})
	for what, h := range map[string]Handler{
		"HTTP": {HTTPGet: &HTTPGet{Scheme: "https", Port: 1, TLS: client}}, "gRPC": {GRPC: &GRPC{Port: 1, TLS: client}},
	} {
		if n := testing.AllocsPerRun(10, func() {
			if _, err := p.Probe(h, loopback); err != nil {
				t.Fatal(err)
			}
		}); n > 100 {
			t.Errorf("%s: a probe takes %.0f allocations", what, n)
		}
	}
}

func TestFilesThatAreKept(t *testing.T) {
	a, b := newAuthority(t, "a"), newAuthority(t, "b")
	cert, key := a.client()
	_, another := a.client()
	var r credentialsRead
	one, err := r.config(&TLSClient{CA: a.pem, Cert: cert, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	same, _ := r.config(&TLSClient{CA: a.pem, ServerName: "api", Verify: true})
	other, _ := r.config(&TLSClient{CA: b.pem})
	switch {
	case one.RootCAs != same.RootCAs || !one.InsecureSkipVerify || same.InsecureSkipVerify || one.ServerName != "" || len(same.Certificates) != 0:
		t.Errorf("got %+v and %+v", one, same)
	case one.RootCAs.Equal(other.RootCAs):
		t.Error("two files are one")
	}
	for range 2 {
		if _, err := r.config(&TLSClient{Cert: cert, Key: another}); err == nil {
			t.Error("a certificate goes with another one's key")
		}
		if _, err := r.config(&TLSClient{CA: "none"}); err == nil {
			t.Error("a text without certificates was kept")
		}
	}
	for i := range 3 * maxCredentials {
		if _, err := r.config(&TLSClient{CA: a.pem + strings.Repeat("\n", i)}); err != nil {
			t.Fatal(err)
		}
	}
	if len(r.authorities) > maxCredentials || len(r.pairs) != 1 {
		t.Errorf("keeps %d and %d", len(r.authorities), len(r.pairs))
	}
}
