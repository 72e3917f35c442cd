package haproxy

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// An HAProxy that has never answered has all its series, so that the first error is an increase.
func TestMetricsBeforeTheFirstAnswer(t *testing.T) {
	h, err := New(Config{Sockets: []string{"/run/haproxy/admin.sock"}, Agent: "127.0.0.1:8647"})
	if err != nil {
		t.Fatal(err)
	}
	const want = `
# HELP healthd_haproxy_commands_total Commands that healthd sent to the HAProxy.
# TYPE healthd_haproxy_commands_total counter
healthd_haproxy_commands_total{socket="/run/haproxy/admin.sock"} 0
# HELP healthd_haproxy_errors_total Servers for which the HAProxy refused a command or gave an invalid answer.
# TYPE healthd_haproxy_errors_total counter
healthd_haproxy_errors_total{socket="/run/haproxy/admin.sock"} 0
# HELP healthd_haproxy_problems Servers and backends of the HAProxy that healthd cannot bring into the wanted state.
# TYPE healthd_haproxy_problems gauge
healthd_haproxy_problems{socket="/run/haproxy/admin.sock"} 0
# HELP healthd_haproxy_up 1 if healthd can update the HAProxy, else 0.
# TYPE healthd_haproxy_up gauge
healthd_haproxy_up{socket="/run/haproxy/admin.sock"} 0
`
	if err := testutil.CollectAndCompare(h, strings.NewReader(want),
		"healthd_haproxy_commands_total", "healthd_haproxy_errors_total", "healthd_haproxy_problems", "healthd_haproxy_up"); err != nil {
		t.Error(err)
	}
	none, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	if n := testutil.CollectAndCount(none); n != 0 {
		t.Errorf("%d series without an HAProxy", n)
	}
}
