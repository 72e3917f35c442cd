package main

import (
	"testing"
	"time"

	"healthd/configs"
)

// Whoever lets Traefik ask needs drains that last long enough. One request may be a try.
func TestWarningOfTraefik(t *testing.T) {
	for _, tt := range []struct {
		name, config string
		asked        []time.Duration // ago
		warns        bool
	}{
		{"nobody asks", "", nil, false},
		{"somebody tries it", "", []time.Duration{time.Second}, false},
		{"Traefik asks", "", []time.Duration{6 * time.Second, time.Second}, true},
		{"Traefik has asked", "", []time.Duration{10 * time.Minute, 9 * time.Minute}, false},
		{"Traefik is expected", "[traefik]", []time.Duration{6 * time.Second, time.Second}, false},
	} {
		c, err := configs.Parse("healthd.toml", []byte(tt.config))
		if err != nil {
			t.Fatal(err)
		}
		d, now := &daemon{}, time.Now()
		d.config.Store(c)
		for _, ago := range tt.asked {
			d.traefik.asked(now.Add(-ago))
		}
		if got := d.traefikUnexpected(now); (got != "") != tt.warns {
			t.Errorf("%s: %q", tt.name, got)
		}
		if got := d.warnings(); (len(got) == 1) != tt.warns {
			t.Errorf("%s: status warns %q", tt.name, got)
		}
	}
}
