package api

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// OnlyHosts has h answer only requests that name it by an IP address, localhost, healthd or one of
// hosts, and others get 421. A web page of a name that its owner points at a loopback address could
// otherwise have a browser on this host read what only the host may see (DNS rebinding). Browsers
// always send a name; HAProxy's checks may not.
func OnlyHosts(h http.Handler, hosts []string) http.Handler {
	known := append([]string{"", "localhost", "healthd"}, hosts...)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.Host
		if host, _, err := net.SplitHostPort(name); err == nil {
			name = host
		}
		name = strings.TrimSuffix(strings.Trim(name, "[]"), ".")
		same := func(s string) bool { return strings.EqualFold(s, name) }
		if _, err := netip.ParseAddr(name); err != nil && !slices.ContainsFunc(known, same) {
			http.Error(w, "healthd does not answer to this name: add it to [listen] hosts", http.StatusMisdirectedRequest)
			return
		}
		h.ServeHTTP(w, r)
	})
}
