package files

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
)

var shapes = map[string]*regexp.Regexp{
	"nginx": regexp.MustCompile(`\A# Written by healthd[^\n]*\n\n(?:# [A-Za-z0-9_./-]+\nupstream [A-Za-z0-9_.-]+ \{\n` +
		`(?:    server (?:\d+\.\d+\.\d+\.\d+|\[[0-9a-f:.]+\]):\d+;\n|    server 127\.0\.0\.1:9 down;\n)+\}\n\n?)*\z`),
	"caddy": regexp.MustCompile(`\A# Written by healthd[^\n]*\n\n(?:# [A-Za-z0-9_./-]+\n\([A-Za-z0-9_.-]+\) \{\n` +
		`(?:\tto(?: (?:\d+\.\d+\.\d+\.\d+|\[[0-9a-f:.]+\]):\d+)+\n)?\}\n\n?)*\z`),
	"haproxy-map": regexp.MustCompile(`\A# Written by healthd[^\n]*\n(?:[A-Za-z0-9_./-]+ \d+\n)*\z`),
}

// checkShape reads what a shipped template has made, much stricter than its balancer does.
func checkShape(t *testing.T, name, text string) {
	t.Helper()
	if shape := shapes[name]; shape != nil {
		if !shape.MatchString(text) {
			t.Errorf("%s has made\n%s", name, text)
		}
		return
	}
	into := map[string]any{"traefik": &traefikFile{}, "envoy": &envoyFile{}, "prometheus": &[]prometheusGroup{}}[name]
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil || d.More() || strings.Contains(text, "{{") && name == "traefik" {
		t.Errorf("%s: %v:\n%s", name, err, text)
	}
}

type traefikFile struct {
	HTTP *struct {
		Services map[string]struct {
			LoadBalancer struct {
				Servers []struct {
					URL string `json:"url"`
				} `json:"servers"`
			} `json:"loadBalancer"`
		} `json:"services"`
	} `json:"http"`
}

type envoyFile struct {
	Version   string `json:"version_info"`
	Resources []struct {
		Type      string `json:"@type"`
		Cluster   string `json:"cluster_name"`
		Endpoints []struct {
			Endpoints []struct {
				Endpoint struct {
					Address struct {
						Socket struct {
							Address string `json:"address"`
							Port    int    `json:"port_value"`
						} `json:"socket_address"`
					} `json:"address"`
				} `json:"endpoint"`
			} `json:"lb_endpoints"`
		} `json:"endpoints"`
	} `json:"resources"`
}

type prometheusGroup struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}
