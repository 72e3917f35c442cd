package balancers

import (
	"strings"
	"time"
)

const traefikStatic = `
global: { checkNewVersion: false, sendAnonymousUsage: false }
log: { level: INFO }
entryPoints: { web: { address: "FRONT" } }
`

// traefikRouters are the operator's, in a file of their own.
const traefikRouters = "http: { routers: { lab: { rule: 'PathPrefix(`/`)', service: NAME--web@PROVIDER } } }\n"

// Traefik reads no files again when told to, and has no command for it: it looks by itself.
var traefikWays = []way{
	{
		name: "Traefik HTTP, poll 500ms, throttle 100ms", program: "traefik",
		files: map[string]string{
			"routers.yaml": strings.ReplaceAll(traefikRouters, "PROVIDER", "http"),
			"traefik.yaml": traefikStatic + `
providers:
  providersThrottleDuration: 100ms
  file: { filename: DIR/routers.yaml }
  http: { endpoint: "http://HEALTHD/v1/discovery/traefik", pollInterval: 500ms }
`,
		},
		argv:    []string{"PROGRAM", "--configfile=DIR/traefik.yaml"},
		healthd: "[traefik]\ndrain = \"1.1s\"\n",
		within:  1100 * time.Millisecond, seldom: true,
	},
	{
		name: "Traefik HTTP, defaults", program: "traefik",
		files: map[string]string{
			"routers.yaml": strings.ReplaceAll(traefikRouters, "PROVIDER", "http"),
			"traefik.yaml": traefikStatic + `
providers:
  file: { filename: DIR/routers.yaml }
  http: { endpoint: "http://HEALTHD/v1/discovery/traefik" }
`,
		},
		argv:    []string{"PROGRAM", "--configfile=DIR/traefik.yaml"},
		healthd: "[traefik]\n",
		within:  7500 * time.Millisecond, seldom: true, slow: true,
	},
	{
		name: "Traefik file, throttle 100ms", program: "traefik",
		files: map[string]string{
			"dynamic/routers.yaml": strings.ReplaceAll(traefikRouters, "PROVIDER", "file"),
			"traefik.yaml": traefikStatic + `
providers:
  providersThrottleDuration: 100ms
  file: { directory: DIR/dynamic }
`,
		},
		argv:    []string{"PROGRAM", "--configfile=DIR/traefik.yaml"},
		healthd: publishedFile("traefik", "dynamic/healthd.yaml") + "drain = \"500ms\"\n",
		within:  500 * time.Millisecond,
	},
	{
		name: "Traefik file, defaults", program: "traefik",
		files: map[string]string{
			"dynamic/routers.yaml": strings.ReplaceAll(traefikRouters, "PROVIDER", "file"),
			"traefik.yaml": traefikStatic + `
providers:
  file: { directory: DIR/dynamic }
`,
		},
		argv:    []string{"PROGRAM", "--configfile=DIR/traefik.yaml"},
		healthd: publishedFile("traefik", "dynamic/healthd.yaml"),
		within:  2500 * time.Millisecond, slow: true,
	},
}
