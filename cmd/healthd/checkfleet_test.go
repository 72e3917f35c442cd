package main

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"healthd/configs"
	"healthd/supervisor/fleet/etcdtest"
	"healthd/supervisor/metrics"
)

func TestWarningsOfTheFleetsHost(t *testing.T) {
	authority := etcdtest.NewTLS(t)
	now := time.Now().Truncate(time.Second)
	good, goodKey := authority.Sign(t, "good", now.Add(time.Hour))
	ended, endedKey := authority.Sign(t, "ended", now.Add(-time.Hour))
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		f    *configs.Fleet
		want string // in the only warning; empty: none
	}{
		{"no fleet", nil, ""},
		{"all is well", &configs.Fleet{CAFile: authority.CA, CertFile: good, KeyFile: goodKey, Advertise: netip.MustParseAddr("127.0.0.1")}, ""},
		{"no authorities", &configs.Fleet{CAFile: "/nowhere/ca.pem"}, "fleet.ca_file: open /nowhere/ca.pem: no such file or directory"},
		{"no authority in the file", &configs.Fleet{CAFile: goodKey}, "fleet.ca_file: " + goodKey + " has no certificate"},
		{"no key", &configs.Fleet{CertFile: good, KeyFile: "/nowhere/key.pem"}, "fleet.cert_file: cannot use " + good + " with /nowhere/key.pem: open /nowhere/key.pem: no such file or directory"},
		{"another one's key", &configs.Fleet{CertFile: good, KeyFile: endedKey}, "private key does not match public key"},
		{"ended", &configs.Fleet{CertFile: ended, KeyFile: endedKey}, "fleet.cert_file: " + ended + " has ended at " + now.Add(-time.Hour).UTC().Format(time.RFC3339)},
		{"no password", &configs.Fleet{PasswordFile: "/nowhere/password"}, "fleet.password_file: open /nowhere/password: no such file or directory"},
		{"an empty one", &configs.Fleet{PasswordFile: empty}, "fleet.password_file: " + empty + " is empty"},
		{"another host's address", &configs.Fleet{Advertise: netip.MustParseAddr("192.0.2.1")}, "fleet.advertise: 192.0.2.1 is no address of this host"},
	} {
		got := fleetHostWarnings(tt.f, now)
		if tt.want == "" && len(got) > 0 || tt.want != "" && (len(got) != 1 || !strings.Contains(got[0], tt.want)) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	if got := wrongCertificate(good, goodKey, now.Add(-72*time.Hour)); !strings.Contains(got, " begins at ") {
		t.Errorf("of a certificate that is not valid yet: %q", got)
	}
}

// A probe's own certificate that has ended is an error of check: servers refuse it.
func TestCheckOfAnEndedCertificate(t *testing.T) {
	authority := etcdtest.NewTLS(t)
	now := time.Now().Truncate(time.Second)
	good, goodKey := authority.Sign(t, "good", now.Add(time.Hour))
	ended, endedKey := authority.Sign(t, "ended", now.Add(-time.Hour))
	check := func(cert, key string) result {
		return inside("check", "--config", write(t, "own.toml", fmt.Sprintf(`[[spec]]
name = "a"
liveness.grpc = { port = 1, tls = { cert_file = %q, key_file = %q } }
match = { a = "b" }
`, cert, key)))
	}
	if got := check(good, goodKey); got.code != 0 {
		t.Errorf("good: %+v", got)
	}
	want := fmt.Sprintf(":3: tls.cert_file: %q has ended at %s\nhealthd: cannot use the configuration: 1 problem\n",
		ended, now.Add(-time.Hour).UTC().Format(time.RFC3339))
	if got := check(ended, endedKey); got.code != 1 || !strings.HasSuffix(got.stderr, want) {
		t.Errorf("ended: %+v, want %q", got, want)
	}
	c, err := configs.Parse("own.toml", fmt.Appendf(nil,
		"[[spec]]\nname = \"a\"\nliveness.grpc = { port = 1, tls = { cert_file = %q, key_file = %q } }\n", ended, endedKey))
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{reloadMetrics: metrics.NewReload()}
	for _, in := range []struct {
		config *configs.Config
		series int
	}{{c, 1}, {&configs.Config{}, 0}} {
		d.use(in.config)
		if n := testutil.CollectAndCount(d.reloadMetrics, "healthd_tls_client_certificate_expiry_seconds"); n != in.series {
			t.Errorf("%d series, want %d", n, in.series)
		}
	}
}
