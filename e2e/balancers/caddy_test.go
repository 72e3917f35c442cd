package balancers

import (
	"slices"
	"strings"
	"time"
)

const caddyConfig = `
{
	admin ADMIN
	auto_https off
}
HOW
`

var (
	caddyArgv   = []string{"PROGRAM", "run", "--config", "DIR/Caddyfile", "--adapter", "caddyfile"}
	caddyReload = []string{"PROGRAM", "reload", "--config", "DIR/Caddyfile", "--adapter", "caddyfile", "--address", "ADMIN"}
	// caddyForced is also a reload if the files have not changed.
	caddyForced = append(slices.Clone(caddyReload), "--force")
)

// Each Caddy that a reload begins listens anew beside the old one, with SO_REUSEPORT: what the kernel gave to the old one and was
// not accepted yet is reset.
var caddyWays = []way{
	{
		name: "Caddy file", program: "caddy", argv: caddyArgv, reload: caddyForced,
		files: map[string]string{"Caddyfile": strings.Replace(caddyConfig, "HOW", `
import DIR/upstreams.caddy
:FRONTPORT {
	bind 127.0.0.1
	reverse_proxy {
		import NAME--web
	}
}`, 1)},
		healthd:   publishedFile("caddy", "upstreams.caddy", caddyReload...),
		published: "DIR/upstreams.caddy", within: 500 * time.Millisecond, cuts: true,
	},
	{
		name: "Caddy DNS, refresh 1s", program: "caddy", argv: caddyArgv, reload: caddyForced,
		files: map[string]string{"Caddyfile": strings.Replace(caddyConfig, "HOW", `
:FRONTPORT {
	bind 127.0.0.1
	reverse_proxy {
		dynamic srv _http._tcp.web.NAME.healthd {
			refresh 1s
			resolvers tcp/DNS
		}
		transport http {
			resolvers tcp/DNS
		}
	}
}`, 1)},
		healthd: listenDNS, within: 3 * time.Second, cuts: true, loses: true,
	},
}
