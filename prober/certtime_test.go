package prober

import (
	"crypto/tls"
	"encoding/asn1"
	"encoding/json"
	"net/http"
	"slices"
	"testing"
	"time"
)

// elements returns what an ASN.1 sequence consists of.
func elements(t *testing.T, der []byte) []asn1.RawValue {
	t.Helper()
	var all []asn1.RawValue
	if rest, err := asn1.Unmarshal(der, &all); err != nil || len(rest) > 0 {
		t.Fatal(err)
	}
	return all
}

func sequence(t *testing.T, all []asn1.RawValue) asn1.RawValue {
	t.Helper()
	der, err := asn1.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return asn1.RawValue{FullBytes: der}
}

// endsAt returns a server whose certificate ends at a GeneralizedTime. The signature is wrong then, which
// nobody looks at who does not verify.
func endsAt(t *testing.T, end string) *tls.Config {
	t.Helper()
	config := newAuthority(t, "a").server("api", time.Now().Add(time.Hour))
	certificate := elements(t, config.Certificates[0].Certificate[0])
	body := elements(t, certificate[0].FullBytes)
	i := slices.IndexFunc(body, func(v asn1.RawValue) bool {
		var times []asn1.RawValue
		_, err := asn1.Unmarshal(v.FullBytes, &times)
		return err == nil && len(times) == 2 && times[0].Tag == asn1.TagUTCTime
	})
	validity := elements(t, body[i].FullBytes)
	validity[1] = asn1.RawValue{Tag: asn1.TagGeneralizedTime, Bytes: []byte(end)}
	body[i] = sequence(t, validity)
	certificate[0] = sequence(t, body)
	config.Certificates[0].Certificate[0], config.Certificates[0].Leaf = sequence(t, certificate).FullBytes, nil
	return config
}

// One container's certificate must not be what no status can show.
func TestCertificateOfAnOddTime(t *testing.T) {
	for _, tt := range []struct{ end, want string }{
		{"20990102030405Z", "2099-01-02T03:04:05Z"},
		{"99991231235959Z", "9999-12-31T23:59:59Z"},
		{"99991231235959-0100", "9999-12-31T23:59:59Z"},
		{"00000101000000Z", "0001-01-01T00:00:01Z"},
		{"00000101000000+0100", "0001-01-01T00:00:01Z"},
		{"00010101000000Z", "0001-01-01T00:00:01Z"}, // which is no certificate elsewhere
	} {
		port := secureServer(t, endsAt(t, tt.end), func(http.ResponseWriter, *http.Request) {})
		for what, h := range map[string]Handler{
			"HTTP": {HTTPGet: &HTTPGet{Scheme: "https", Port: port}},
			"gRPC": {GRPC: &GRPC{Port: secureGRPC(t, endsAt(t, tt.end)), TLS: &TLSClient{}}},
		} {
			r := ask(t, h)
			text, err := json.Marshal(r.Certificate.UTC())
			if err != nil || string(text) != `"`+tt.want+`"` || r.Certificate.IsZero() {
				t.Errorf("%s, %s: got %s (%v), %v, want %s", what, tt.end, text, r.Certificate, err, tt.want)
			}
			wantResult(t, r, Success, "")
		}
	}
}
